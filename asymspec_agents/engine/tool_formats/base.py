"""What a tool-call format is, and what all of them share: blocks, tools, and arguments as JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...messages import FunctionCall, ToolSpec

__all__ = [
    "Block",
    "JsonValue",
    "ToolFormat",
    "Tools",
    "block_until",
    "calls_of",
    "function_call",
    "read_json",
    "skip_space",
]

_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools a model was offered: each one's name and the JSON schema of its parameters."""

    schemas: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, tools: Sequence[ToolSpec]) -> Tools:
        """The functions among the tools."""
        return cls({t.function.name: t.function.parameters or {} for t in tools if t.function is not None})

    def __contains__(self, name: object) -> bool:
        return name in self.schemas

    def __len__(self) -> int:
        return len(self.schemas)


@dataclass(frozen=True, slots=True)
class Block:
    """The calls of one block, never none, and where the text goes on behind it."""

    functions: tuple[FunctionCall, ...]
    end: int


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way to write calls.

    `openings` are the texts a block can begin with; `read` takes the text, the place of an opening and the
    tools, and gives the block there or None. `signs`: any one of them in a model's chat template or among its
    tokens says that the model uses the format. `marks`: further texts that its tokens may stand for.
    `read_whole` reads an answer that is all calls without any opening.
    """

    name: str
    signs: tuple[str, ...]
    openings: tuple[str, ...]
    read: Callable[[str, int, Tools], Block | None]
    marks: tuple[str, ...] = ()
    read_whole: Callable[[str, Tools], tuple[FunctionCall, ...]] | None = None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


# Models write line breaks into strings; NaN and Infinity would make arguments that no client can read.
_JSON = json.JSONDecoder(strict=False, parse_constant=_refuse)


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value in a text, and the place behind it."""

    value: Any
    end: int


def read_json(text: str, start: int) -> JsonValue | None:
    """The JSON value that begins at `start`, white space aside; None where there is none."""
    try:
        value, end = _JSON.raw_decode(text, skip_space(text, start))
    except (ValueError, RecursionError):
        return None
    return JsonValue(value, end)


def skip_space(text: str, start: int) -> int:
    """The first place from `start` on that is no white space."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def block_until(
    text: str, end: int, functions: Sequence[FunctionCall], closing: str, openings: tuple[str, ...]
) -> Block | None:
    """The block whose calls end at `end`; its closing may be missing before another block or the end."""
    if not functions:
        return None
    end = skip_space(text, end)
    if closing and text.startswith(closing, end):
        return Block(tuple(functions), end + len(closing))
    is_over = end == len(text) or text.startswith(openings, end)
    return Block(tuple(functions), end) if is_over else None


def function_call(name: str, arguments: Any) -> FunctionCall | None:
    """The call, its arguments as the JSON text of an object; None where they or the name cannot be that."""
    if isinstance(arguments, str):
        parsed = read_json(arguments, 0)
        if parsed is None or skip_space(arguments, parsed.end) != len(arguments):
            return None
        arguments = parsed.value
    if not isinstance(arguments, dict):
        return None
    try:
        name.encode()
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # only escaped can they be sent
            text = json.dumps(arguments, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return None
    return FunctionCall(name=name, arguments=text) if name.strip() else None


def calls_of(value: Any) -> tuple[FunctionCall, ...]:
    """The calls that a JSON value, or each item of a list, is; none where one item is no call."""
    items: Sequence[Any] = value if isinstance(value, list) else [value]
    calls = [_call_of(item) for item in items]
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _call_of(item: Any) -> FunctionCall | None:
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("function"), dict) and "name" not in item:  # the shape of the wire
        item = item["function"]
    name = item.get("name")
    if not isinstance(name, str):
        return None
    return function_call(name, item.get("arguments", item.get("parameters")))
