"""What `run` is asked for, out of the words of its command line: arms, sweeps, views, data, samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from asymspec_agents.errors import ConfigurationError

from ..cells import BASELINES, IDENTICAL, ArmSpec
from ..suites import SUITES

__all__ = ["DEFAULT_ARMS", "arms_of", "data_paths", "only_of", "options_of", "read_ids"]

DEFAULT_ARMS = ("floor", "ceiling", "drafter", "asymspec")

# What a baseline's text or work depends on; every other arm is AsymSpec's, and takes every option.
_OPTIONS_OF_BASELINES: Mapping[str, frozenset[str]] = {
    **{name: frozenset() for name in (*BASELINES, IDENTICAL)},
    "symmetric_full": frozenset({"num_draft_tokens"}),
    "symmetric_compressed": frozenset({"num_draft_tokens"}),
    "rapid": frozenset({"num_draft_tokens"}),
    "scd": frozenset({"num_draft_tokens", "beta", "plausibility"}),
}


def arms_of(names: Iterable[str], sweeps: Sequence[str] = ()) -> tuple[ArmSpec, ...]:
    """The arms, those that a sweep concerns once for each of its values (of several, for each combination).

    Raises ConfigurationError where an arm or value is wrong, an arm has an option already that is swept, or
    a sweep concerns no arm.
    """
    arms = {str(arm): arm for arm in map(ArmSpec.parse, names)}
    for arm in arms.values():
        _check_options(arm)
    swept = [_sweep(text) for text in sweeps]
    twice = [name for name, _ in swept if sum(other == name for other, _ in swept) > 1]
    if twice:
        raise ConfigurationError(f"--sweep {twice[0]} is given twice; list its values once")
    used: set[str] = set()
    expanded: dict[str, ArmSpec] = {}
    for arm in arms.values():
        takes = _OPTIONS_OF_BASELINES.get(arm.name)
        here = [(name, values) for name, values in swept if takes is None or name in takes]
        used.update(name for name, _ in here)
        for name, _ in here:
            if name in arm.options:
                raise ConfigurationError(
                    f"arm={str(arm)!r} has {name} already, and --sweep {name} sets it too"
                )
        given = [str(arm).partition(":")[2]] if arm.options else []
        for values in itertools.product(*(values for _, values in here)):
            pairs = [f"{name}={value}" for (name, _), value in zip(here, values, strict=True)]
            text = ",".join([*given, *pairs])
            new = ArmSpec.parse(f"{arm.name}:{text}" if text else arm.name)
            expanded[str(new)] = new
    unused = [name for name, _ in swept if name not in used]
    if unused:
        raise ConfigurationError(f"--sweep {unused[0]} concerns none of the arms {', '.join(arms)}")
    return tuple(expanded.values())


def _check_options(arm: ArmSpec) -> None:
    """Refuses an option that changes nothing in a baseline: its cell would be a copy under another name."""
    takes = _OPTIONS_OF_BASELINES.get(arm.name)
    idle = [] if takes is None or arm.name == IDENTICAL else sorted(set(arm.options) - takes)
    if idle:
        known = f"it has {', '.join(sorted(takes or ()))}" if takes else "it has no options"
        raise ConfigurationError(f"arm={str(arm)!r}: {idle[0]} changes nothing in {arm.name}; {known}")


def _sweep(text: str) -> tuple[str, tuple[str, ...]]:
    name, separator, values = text.partition("=")
    listed = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not separator or not listed:
        raise ConfigurationError(f"--sweep {text!r} must be OPTION=VALUE,VALUE,… such as beta=0.5,1,2")
    return name.strip(), listed


def data_paths(given: Sequence[str], suites: Sequence[str]) -> dict[str, Path]:
    """The local data of each suite: of `SUITE=PATH`, or of one path that is every suite's.

    A suite's name without its options is meant for all its variants. Raises ConfigurationError where a name
    is no suite of the run, a suite gets two paths, or a path is missing.
    """
    paths: dict[str, Path] = {}
    for text in given:
        if not text.partition("=")[2 if "=" in text else 0].strip():
            raise ConfigurationError(f"--data {text!r} names no path")
        for name, place in _places(text, suites):
            if name in paths:
                raise ConfigurationError(f"--data {text!r}: {name!r} has the data {paths[name]} already")
            paths[name] = place
            if not place.exists():
                raise ConfigurationError(f"--data {text!r}: {place} does not exist")
    return paths


def _places(text: str, suites: Sequence[str]) -> Iterator[tuple[str, Path]]:
    prefixes = {*suites, *(name.partition(":")[0] for name in suites)}
    for prefix in sorted(prefixes, key=len, reverse=True):
        if text.startswith(f"{prefix}="):
            meant = [name for name in suites if prefix in (name, name.partition(":")[0])]
            return iter([(name, Path(text[len(prefix) + 1 :]).expanduser()) for name in meant])
    name, separator, _ = text.partition("=")
    if separator and not Path(text).exists():
        known = "not of this run" if name in SUITES else "unknown"
        raise ConfigurationError(f"--data {text!r}: suite {name!r} is {known}; here: {', '.join(suites)}")
    return iter([(name, Path(text).expanduser()) for name in suites])


def only_of(given: Sequence[str]) -> dict[str, frozenset[str]]:
    """The values that are kept, by group: any of those given for one group, all of the groups."""
    only: dict[str, frozenset[str]] = {}
    for text in given:
        group, separator, value = text.partition("=")
        if not separator or not group:
            raise ConfigurationError(f"--only {text!r} must be GROUP=VALUE, such as level=1")
        only[group] = only.get(group, frozenset()) | {value}
    return only


def options_of(given: Sequence[str]) -> dict[str, str]:
    """The suites' own options; raises ConfigurationError for what is no NAME=VALUE, or named twice."""
    options: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ConfigurationError(f"--option {text!r} must be NAME=VALUE, such as cassette=web.jsonl")
        if name in options:
            raise ConfigurationError(f"--option {name}: given twice")
        options[name] = value
    return options


def read_ids(path: Path) -> frozenset[str]:
    """The ids in a file, one a line; raises ConfigurationError where it holds none."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--ids {path}: not UTF-8 ({error})") from error
    ids = frozenset(line.strip() for line in text.splitlines()) - {""}
    if not ids:
        raise ConfigurationError(f"--ids {path}: there is no id in it")
    return ids
