"""Which packages `asymspec doctor` looks at, tries, and wants installed anew."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from asymspec_agents.diagnosis.installation import DEVELOPERS, DISTRIBUTION, module_of
from asymspec_agents.diagnosis.probe import Probe
from asymspec_agents.diagnosis.requirements import Requirement, read_requirements
from tests.unit.diagnosed import FACTS, FLATTENED, REQUIREMENTS, VERSIONS, diagnose


def test_an_extra_of_which_others_brought_parts_is_not_taken_as_wanted(tmp_path: Path) -> None:
    found = diagnose(tmp_path, versions={"pydantic": "2.8", "gguf": "0.17", "starlette": "9.0"})
    assert found["extra engine"].status == found["extra server"].status == "info"
    assert not {"models", "memory"} & found.keys()  # of no use without the engine


def test_what_is_installed_is_tried_and_nothing_else(tmp_path: Path) -> None:
    tried: list[Sequence[str]] = []

    def try_modules(modules: Sequence[str]) -> Probe:
        tried.append(modules)
        return Probe(FACTS)

    diagnose(tmp_path, try_modules=try_modules, versions={**VERSIONS, "smolagents": "1.26.0"})
    assert tried == [["gguf", "pydantic", "smolagents", "torch", "smolagents_asymspec"]]


def test_every_package_that_users_install_is_tried_by_a_module_that_is_its_own() -> None:
    """Of those that are here: the test machine has all but vLLM, of which one build has the module's name."""
    requirements = [
        need
        for need in read_requirements(importlib.metadata.requires(DISTRIBUTION) or ())
        if need.extra not in DEVELOPERS and need.name != DISTRIBUTION
    ]
    assert len(requirements) > 20
    for need in requirements:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(need.name)
            module = module_of(need.name).replace(".", "/")
            files = {str(file) for file in distribution.files or ()}
            assert files & {f"{module}/__init__.py", f"{module}.py"}, (need.name, module)


def test_what_only_developers_need_is_not_tried(tmp_path: Path) -> None:
    requirements = [
        *REQUIREMENTS,
        Requirement("mkdocs-material", ">=9", "docs"),
        Requirement("scipy", ">=1", "evals"),
    ]
    tried: list[Sequence[str]] = []

    def try_modules(modules: Sequence[str]) -> Probe:
        tried.append(modules)
        return Probe(FACTS)

    versions = {**VERSIONS, "mkdocs-material": "9.7", "scipy": "1.15"}
    diagnose(tmp_path, try_modules=try_modules, requirements=requirements, versions=versions)
    assert {"mkdocs_material", "scipy"}.isdisjoint(tried[0])


def test_a_broken_package_of_another_name_is_installed_anew_by_its_own(tmp_path: Path) -> None:
    requirements = [*REQUIREMENTS, Requirement("pillow", ">=11,<14", "vision")]
    probe = Probe({}, {"PIL": "ImportError: libjpeg"})
    found = diagnose(
        tmp_path,
        requirements=requirements,
        versions={**VERSIONS, "pillow": "12.0"},
        try_modules=lambda modules: probe,
    )
    assert found["PIL"].fix == 'pip install --force-reinstall "pillow>=11,<14"'


def test_an_extra_that_shares_packages_with_another_is_not_taken_for_wanted(tmp_path: Path) -> None:
    versions = {"pydantic": "2.14.0", "torch": "2.13.0", "filelock": "4.3", "numpy": "2.4", "bm25s": "0.3.16"}
    found = diagnose(tmp_path, requirements=FLATTENED, versions=versions)
    assert found["extra engine"].status == "ok"
    assert found["extra server"].status == found["extra vision"].status == "info"
    assert {"extra all", "extra docs"}.isdisjoint(found)


def test_an_extra_whose_main_package_is_there_lacks_the_others(tmp_path: Path) -> None:
    versions = {"pydantic": "2.14.0", "torch": "2.13.0", "starlette": "1.0"}
    found = diagnose(tmp_path, requirements=FLATTENED, versions=versions)
    assert found["extra server"].status == "FAIL"
    assert "filelock" in found["extra server"].found
