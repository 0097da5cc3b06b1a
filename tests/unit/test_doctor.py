"""`asymspec doctor` of an installation: every check with a good and a bad one, and how checks are run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.cli import main as cli
from asymspec_agents.diagnosis.finding import Check, Finding, run_checks
from asymspec_agents.diagnosis.installation import DEVELOPERS, DISTRIBUTION, Installation, module_of
from asymspec_agents.diagnosis.installation_checks import DEFAULT_PAIR_CHECKS, INSTALLATION_CHECKS
from asymspec_agents.diagnosis.machine import available_bytes, usable_cores
from asymspec_agents.diagnosis.probe import Probe, child, run_probe
from asymspec_agents.diagnosis.requirements import Requirement, read_requirements
from asymspec_agents.errors import WeightsError
from asymspec_agents.weights import PRESETS, CachedModel
from tests.architecture import ROOT

# As hatchling writes them: sorted, and what an included extra brings repeated under the one that includes it.
FLATTENED = read_requirements(
    [
        "pydantic<3,>=2.7",
        "bm25s<0.4,>=0.3; extra == 'all'",
        "torch<2.15,>=2.6; extra == 'all'",
        "filelock<5,>=3.16; extra == 'engine'",
        "torch<2.15,>=2.6; extra == 'engine'",
        "filelock<5,>=3.16; extra == 'server'",
        "starlette<2,>=0.46; extra == 'server'",
        "torch<2.15,>=2.6; extra == 'server'",
        "numpy<3,>=1.26; extra == 'vision'",
        "rapidocr<4,>=3.10; extra == 'vision'",
        "mkdocs-material<10,>=9.8; extra == 'docs'",
    ]
)
REQUIREMENTS = read_requirements(
    [
        "pydantic<3,>=2.7",
        "torch<2.15,>=2.6; extra == 'engine'",
        "gguf<1,>=0.17; extra == 'engine'",
        "asymspec-agents[engine]; extra == 'server'",
        "starlette<2,>=0.46; extra == 'server'",
        "smolagents<2,>=1.26; extra == 'smolagents'",
        "pytest>=8.3; extra == 'dev'",
    ]
)
VERSIONS = {"pydantic": "2.14.0", "torch": "2.13.0+cpu", "gguf": "0.17", "pytest": "1.0"}
COMPUTE = {"float32_s": 0.004, "bfloat16_s": 0.002, "threads": 2}
GPU = {"build": None, "has_driver": False}
FACTS: dict[str, Any] = {"pydantic": {}, "torch": {}, "gguf": {}, "compute": COMPUTE, "gpu": GPU}


def models(state: str = "cached") -> tuple[CachedModel, ...]:
    return tuple(CachedModel(preset, Path(name), state, 1) for name, preset in PRESETS.items())  # type: ignore[arg-type]


def diagnose(tmp_path: Path, **changes: Any) -> dict[str, Finding]:
    facts: dict[str, Any] = {
        "python": (3, 12, 1),
        "requires_python": ">=3.10",
        "version": "1.2.3",
        "metadata_version": "1.2.3",
        "requirements": REQUIREMENTS,
        "versions": VERSIONS,
        "cache_dir": tmp_path,
        "models": models(),
        "free_disk_bytes": lambda folder: 10**12,
        "available_bytes": 10**11,
        "cores": 2,
        "try_modules": lambda modules: Probe(FACTS),
        **changes,
    }
    findings = list(run_checks((*INSTALLATION_CHECKS, *DEFAULT_PAIR_CHECKS), Installation(**facts), 30))
    by_name = {finding.name: finding for finding in findings}
    assert len(by_name) == len(findings)
    for finding in findings:
        assert (finding.fix is not None) == (finding.status in ("warn", "FAIL")), finding
    return by_name


def test_a_good_installation_has_nothing_to_mend(tmp_path: Path) -> None:
    found = diagnose(tmp_path)
    assert {finding.status for finding in found.values()} == {"ok", "info"}
    assert list(found) == [
        *("python", "package", "base packages", "extra engine", "extra server", "extra smolagents"),
        *("cache", "imports", "threads", "dtype", "gpu", "models", "memory"),
    ]
    assert "pytest" not in found["imports"].found
    assert [name for name, finding in found.items() if finding.status == "info"] == [
        *("extra server", "extra smolagents", "gpu")
    ]
    assert 'pip install --upgrade "asymspec-agents[smolagents]"' in found["extra smolagents"].found


def broken_probe(**facts: Any) -> Any:
    return {"try_modules": lambda modules: Probe({**FACTS, **facts})}


BAD: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("python", "FAIL", "3.9.2", "python3", {"python": (3, 9, 2)}),
    ("package", "warn", "source", "pip install -e .", {"metadata_version": None}),
    ("package", "warn", "1.2.3", "--no-deps asymspec-agents", {"metadata_version": "1.2.2"}),
    ("base packages", "FAIL", "pydantic 1.10", '"asymspec-agents"', {"versions": {"pydantic": "1.10"}}),
    (
        "extra engine",
        "FAIL",
        "missing: gguf; out of range: torch 2.5.1",
        '"asymspec-agents[engine]"',
        {"versions": {"pydantic": "2.8", "torch": "2.5.1"}},
    ),
    (
        "extra server",
        "FAIL",
        "starlette 2.0.1",
        "[server]",
        {"versions": {**VERSIONS, "starlette": "2.0.1"}},
    ),
    ("memory", "warn", "2.0 GB", "--drafter", {"available_bytes": 2 * 10**9}),
    ("models", "warn", "qwen2.5-coder-1.5b", "asymspec models pull", {"models": models("absent")}),
    ("models", "warn", "unfinished", "asymspec models pull", {"models": models("partial")}),
    (
        "cache",
        "warn",
        "need",
        "ASYMSPEC_CACHE",
        {"models": models("absent"), "free_disk_bytes": lambda folder: 10**9},
    ),
    ("threads", "warn", "2 threads on 1 cores", "export OMP_NUM_THREADS=1", {"cores": 1}),
    ("dtype", "warn", "bfloat16", "float32", broken_probe(compute={**COMPUTE, "bfloat16_s": 0.04})),
    ("gpu", "warn", "without CUDA", "pytorch.org", broken_probe(gpu={**GPU, "has_driver": True})),
    ("gpu", "warn", "can't use it", "12.8", broken_probe(gpu={"build": "12.8", "has_driver": True})),
    (
        "torch",
        "FAIL",
        "libgomp",
        'pip install --force-reinstall "torch>=2.6,<2.15"',
        {"try_modules": lambda modules: Probe({}, {"torch": "ImportError: libgomp"})},
    ),
    (
        "gguf",
        "FAIL",
        "signal 11",
        'force-reinstall "gguf>=0.17,<1"',
        {"try_modules": lambda modules: Probe({}, {}, "gguf", "ended Python by signal 11")},
    ),
    (
        "imports",
        "FAIL",
        "trying torch was not done",
        "--timeout",
        {"try_modules": lambda modules: Probe(unfinished="torch")},
    ),
    (
        "smolagents_asymspec",
        "FAIL",
        "1.20",
        '"smolagents>=1.26,<2"',
        {"try_modules": lambda modules: Probe({}, {"smolagents_asymspec": "ConfigurationError: 1.20"})},
    ),
]


@pytest.mark.parametrize(("name", "status", "found", "fix", "changes"), BAD)
def test_what_is_wrong_is_named_with_its_fix(
    tmp_path: Path, name: str, status: str, found: str, fix: str, changes: dict[str, Any]
) -> None:
    finding = diagnose(tmp_path, **changes)[name]
    assert finding.status == status
    assert found in finding.found
    assert fix in str(finding.fix)


def test_an_extra_of_which_others_brought_parts_is_not_taken_as_wanted(tmp_path: Path) -> None:
    found = diagnose(tmp_path, versions={"pydantic": "2.8", "gguf": "0.17", "starlette": "9.0"})
    assert found["extra engine"].status == found["extra server"].status == "info"
    assert not {"models", "memory"} & found.keys()  # of no use without the engine


def test_a_gpu_makes_the_cpus_formats_unimportant(tmp_path: Path) -> None:
    gpu = {"build": "13.0", "has_driver": True, "name": "A GPU", "free_bytes": 80 * 10**9}
    slow = {**COMPUTE, "bfloat16_s": 1.0}
    found = diagnose(tmp_path, **broken_probe(gpu=gpu, compute=slow))
    assert found["gpu"].found == "A GPU, 80.0 GB free, CUDA 13.0"
    assert found["dtype"].status == "ok"


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


def test_a_cache_folder_that_cannot_be_is_found_without_making_it(tmp_path: Path) -> None:
    missing = tmp_path / "a" / "b"
    assert "will be made" in diagnose(tmp_path, cache_dir=missing)["cache"].found
    assert not missing.parent.exists()
    (tmp_path / "file").write_text("")
    finding = diagnose(tmp_path, cache_dir=tmp_path / "file" / "models")["cache"]
    assert (finding.status, "no folder" in finding.found) == ("FAIL", True)
    assert finding.fix == "export ASYMSPEC_CACHE=/a/folder/you/can/write"
    assert "cache" not in diagnose(tmp_path, cache_dir=None)


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that refuses even root")
def test_a_cache_folder_that_refuses_files_is_found(tmp_path: Path) -> None:
    assert diagnose(tmp_path, cache_dir=Path("/proc/asymspec"))["cache"].status == "FAIL"


def test_a_check_that_breaks_or_hangs_is_a_finding_and_ends_nothing() -> None:
    def breaks(subject: None) -> Iterator[Finding]:
        raise ZeroDivisionError("by nought")

    def refuses(subject: None) -> Iterator[Finding]:
        raise WeightsError("no such model")

    def hangs(subject: None) -> Iterator[Finding]:
        time.sleep(60)
        yield Finding("never", "ok", "")

    def works(subject: None) -> Iterator[Finding]:
        yield Finding("works", "ok", "fine")

    checks = [
        *(Check("breaks", breaks), Check("refuses", refuses), Check("needy", works, needs=("breaks",))),
        *(Check("needier", works, needs=("needy",)), Check("works", works), Check("hangs", hangs)),
        Check("late", works),
    ]
    found = list(run_checks(checks, None, 0.5))
    assert [(finding.name, finding.status) for finding in found] == [
        *(
            ("breaks", "FAIL"),
            ("refuses", "FAIL"),
            ("works", "ok"),
            ("hangs", "FAIL"),
            ("not checked", "info"),
        )
    ]
    assert "ZeroDivisionError: by nought" in found[0].found
    assert found[1].found == "no such model"
    assert found[3].fix == "give it more time with --timeout 1"
    assert found[4].found.startswith("needy, needier, late;")


def test_the_probe_tells_what_each_module_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "probe_fine": "print('hello')",
        "probe_bad": "raise ImportError('libx.so: no such file')",
        "probe_dead": "import os; os.write(1, b'{\"x\": 1}\\n[1]\\nnoise\\n'); os._exit(3)",
        "probe_slow": "import time; time.sleep(60)",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    probe = run_probe(["probe_fine", "probe_bad", "probe_missing", "probe_dead", "probe_fine"], 60)
    assert probe.facts == {"probe_fine": {}}
    assert probe.errors == {
        "probe_bad": "ImportError: libx.so: no such file",
        "probe_missing": "ModuleNotFoundError: No module named 'probe_missing'",
    }
    assert (probe.culprit, probe.ending) == ("probe_dead", "ended Python with status 3")
    slow = run_probe(["probe_fine", "probe_slow"], 5)
    assert (slow.facts, slow.culprit, slow.unfinished) == ({"probe_fine": {}}, None, "probe_slow")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert run_probe([], 3).culprit == "python"


def test_torch_is_tried_by_computing() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    out = io.StringIO()
    child(["torch"], out)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event.get("begin") for event in events[::2]] == ["torch", "compute", "gpu"]
    facts = events[3]["facts"]
    assert facts["threads"] >= 1
    assert facts["float32_s"] > 0 < facts["bfloat16_s"]
    assert "has_driver" in events[5]["facts"]


def test_a_containers_share_of_the_machine_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) >= 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == usable_cores(tmp_path / "none")
    meminfo = tmp_path / "meminfo"
    assert available_bytes(meminfo, tmp_path) is None
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:  8 kB\n")
    assert available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("5000\n")
    assert available_bytes(meminfo, tmp_path) == 3000


@pytest.mark.full
def test_this_installation_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "integrations")))}
    run = subprocess.run(
        [sys.executable, "-m", "asymspec_agents", "doctor", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    findings = json.loads(run.stdout)
    assert all(finding.keys() == {"name", "status", "found", "fix"} for finding in findings)
    assert {"python", "package", "imports"} <= {finding["name"] for finding in findings}


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
def test_the_time_limit_is_a_number_above_zero(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--timeout", timeout])
    assert "above 0" in capsys.readouterr().err


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
