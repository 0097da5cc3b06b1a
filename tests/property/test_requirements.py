"""Version ranges as doctor reads them, against the `packaging` library, over the forms our metadata has."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.diagnosis.requirements import fits, read_requirements
from tests.architecture import ROOT

packaging_requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed")
packaging_specifiers = pytest.importorskip("packaging.specifiers", reason="packaging is not installed")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

releases = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))
suffixes = st.sampled_from(["", "a1", "b2", "rc1", ".dev3", ".post1", "+cpu", "+cu128", "rc1+cpu"])
versions = st.builds(lambda release, suffix: release + suffix, releases, suffixes)
bounds = st.lists(
    st.builds(lambda op, release: op + release, st.sampled_from([">=", "<"]), releases), max_size=3
)


@given(version=versions, parts=bounds)
def test_a_version_fits_where_packaging_says_so(version: str, parts: list[str]) -> None:
    text = ",".join(parts)
    wanted = packaging_specifiers.SpecifierSet(text, prereleases=True)
    assert fits(version, text) == wanted.contains(version)


@pytest.mark.parametrize("version", ["", "unknown", "two", "-1"])
def test_a_version_that_cannot_be_read_fits_no_range(version: str) -> None:
    assert not fits(version, ">=0")
    assert fits(version, "")


def test_every_requirement_of_ours_is_read_as_packaging_reads_it() -> None:
    lines = [*PROJECT["dependencies"]]
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for requirement in requirements:
            wanted, _, marker = requirement.partition(";")
            lines.append(f"{wanted}; " + (f"({marker}) and " if marker else "") + f"extra == '{extra}'")
    found = read_requirements(lines)
    references = [packaging_requirements.Requirement(line) for line in lines if "python_version" not in line]
    assert [r.name for r in found] == [w.name for w in references]
    for requirement, reference in zip(found, references, strict=True):
        assert {b for b in requirement.range.split(",") if b} == {str(s) for s in reference.specifier}
        assert str(requirement.extra) in (str(reference.marker) or "None")
        assert fits("999", requirement.range) == reference.specifier.contains("999"), requirement


def test_the_python_range_is_one_that_is_understood() -> None:
    assert fits("3.10.0", PROJECT["requires-python"])
    assert not fits("3.9.19", PROJECT["requires-python"])
