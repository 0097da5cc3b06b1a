"""Answers near the right one: drawn from what BFCL allows, then changed in a few places."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

__all__ = ["mutated", "rendered"]

ODD = ("", " ", "x", "TRUE", 0, 1, -1, 1.0, 2.5, True, False, None, [], [1], ["a"], [[]], {}, {"a": 1}, [{}])


def rendered(expected: list[dict[str, dict[str, list[Any]]]], rng: Random) -> list[dict[str, Any]]:
    """Calls by tools' names, each argument one of its allowed values, some that may be missing left out."""
    return [
        {name.replace(".", "_"): _arguments(allowed, rng)}
        for one in expected
        for name, allowed in one.items()
    ]


def _arguments(allowed: dict[str, list[Any]], rng: Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for parameter, values in allowed.items():
        real = [value for value in values if value != ""]
        if not real or ("" in values and rng.random() < 0.5):
            continue
        chosen[parameter] = _plain(rng.choice(real), rng)
    return chosen


def _plain(value: Any, rng: Random) -> Any:
    """An allowed value as a model writes it: within dictionaries the keys list allowed values themselves."""
    if isinstance(value, dict):
        lists = {key: values for key, values in value.items() if isinstance(values, list)}
        return _arguments(lists, rng)
    if isinstance(value, list):
        return [_plain(item, rng) if isinstance(item, dict) else copy.deepcopy(item) for item in value]
    return value


def mutated(calls: list[dict[str, Any]], rng: Random) -> list[dict[str, Any]]:
    """The calls with one to three changes: of values, names, parameters, numbers and orders of calls."""
    calls = copy.deepcopy(calls)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(10)
        if not calls or kind == 0:
            calls.append({"f": {}} if not calls else copy.deepcopy(rng.choice(calls)))
        elif kind == 1:
            del calls[rng.randrange(len(calls))]
        elif kind == 2:
            rng.shuffle(calls)
        else:
            _mutate_call(calls, rng.randrange(len(calls)), kind, rng)
    return calls


def _mutate_call(calls: list[dict[str, Any]], place: int, kind: int, rng: Random) -> None:
    ((name, arguments),) = calls[place].items()
    if kind == 3:
        calls[place] = {rng.choice((name.upper(), name + "x", name.replace("_", "."))): arguments}
    elif kind == 4:
        arguments[rng.choice(("extra", "id", "name"))] = rng.choice(ODD)
    elif arguments:
        key = rng.choice(list(arguments))
        if kind == 5:
            del arguments[key]
        elif kind == 6:
            arguments[key] = copy.deepcopy(rng.choice(ODD))
        else:
            arguments[key] = _mutate(arguments[key], rng)


def _mutate(value: Any, rng: Random) -> Any:
    if isinstance(value, str):
        return rng.choice(
            (value.upper(), value + ".", f" {value}", value.replace("a", "'"), value[1:], [value])
        )
    if isinstance(value, bool):
        return rng.choice((not value, str(value), int(value)))
    if isinstance(value, int | float):
        return rng.choice((value + 1, float(value), str(value), [value], -value, bool(value)))
    if isinstance(value, list):
        value = list(value)
        if value and rng.random() < 0.6:
            place = rng.randrange(len(value))
            value[place] = _mutate(value[place], rng)
        else:
            rng.choice((value.reverse, value.clear, lambda: value.append(rng.choice(ODD))))()
        return value
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.3:
            return {other: one for other, one in value.items() if other != key}
        return {**value, rng.choice((key, "more")): _mutate(value[key], rng)}
    return rng.choice(ODD)
