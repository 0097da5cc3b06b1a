"""What this distribution requires, read from its own metadata.

The forms are those of our pyproject.toml only (`name[extras]>=1.2,<3; extra == "x"`), so that the base
installation can compare versions without a package for it. Versions compare by PEP 440's release numbers; a
pre-release comes before its release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Requirement", "fits", "read_requirements"]

_LINE = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?(?P<range>[^;)]*)\)?\s*(?:;(?P<marker>.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_VERSION = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)", re.DOTALL)
_PRE_RELEASE = re.compile(r"[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev)\d*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One package, the versions that will do (`>=1.2,<3`), the extra that asks for it (None: the base)."""

    name: str
    range: str
    extra: str | None

    def __str__(self) -> str:
        return f"{self.name}{self.range}"


def read_requirements(lines: Iterable[str]) -> tuple[Requirement, ...]:
    """The requirements of `Requires-Dist` lines that hold for every Python version."""
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        marker = (match and match["marker"]) or ""
        extra = _EXTRA.search(marker)
        is_conditional = bool(re.search(r"python|platform|sys_|os_|implementation", marker))
        if match is None or is_conditional:
            continue
        # Metadata may sort a range's bounds in any order.
        bounds = sorted((bound.strip() for bound in match["range"].split(",")), reverse=True)
        found.append(Requirement(_normal(match["name"]), ",".join(bounds), extra[1] if extra else None))
    return tuple(found)


def fits(version: str, bounds: str) -> bool:
    """Whether a version lies in a range such as `>=1.2,<3`; one that can't be read does not."""
    return all(_meets(version, bound.strip()) for bound in bounds.split(",") if bound.strip())


def _meets(version: str, bound: str) -> bool:
    have = _VERSION.fullmatch(version.strip())
    limit = re.fullmatch(r"(>=|<)\s*(\d+(?:\.\d+)*)", bound)
    if have is None or limit is None:
        return False
    release, asked = _numbers(have[1]), _numbers(limit[2])
    if limit[1] == "<":
        return release < asked  # a pre-release of the bound is outside too
    return release > asked or (release == asked and not _PRE_RELEASE.match(have[2]))


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:  # 1.0 is 1
        numbers.pop()
    return numbers


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
