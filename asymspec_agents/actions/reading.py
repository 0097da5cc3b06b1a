"""Actions out of a model's answer: found in prose, code fences or tags, and checked against the tools.

What counts as an action is an object that names a tool beside its arguments, by any of the usual keys
(`{"name": …, "arguments": {…}}`, `{"action": …, "action_input": …}`, OpenAI's nesting under `function`), or
whose only key is a tool's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ActionError
from ..messages import ToolSpec, parse_tools
from .action import Action
from .json_text import NotJSONError, Read, extent, read_strictly, repaired
from .schema import ToolSchema, tool_schemas

__all__ = ["FORM", "actions_in", "read_actions"]

FORM = '{"name": "<tool>", "arguments": {…}}'
NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
ARGUMENT_KEYS = ("arguments", "args", "parameters", "input", "action_input", "tool_input")
MAX_STARTS = 1_000  # brackets tried as the beginning of an action: bounds the work on hostile text
MAX_ACTIONS = 64

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_OPEN_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>")
_BRACKET = re.compile(r"""\{(?=\s*["'\w])|\[(?=\s*\{)""")  # as objects and lists of them begin
_OPEN_TAG = re.compile(r"<[A-Za-z][^<>]*>\s*\Z")
_CLOSING = re.compile(r"\n[ \t]*```|</[A-Za-z][\w:-]*>")
_BEGINS_ACTION = re.compile(
    rf"""[{{\[][\s{{\[]*["']?(?:{"|".join((*NAME_KEYS, "tool_calls?", "actions?", "thoughts?"))})["']?\s*:"""
)


def read_actions(
    text: str, tools: Sequence[ToolSpec | Mapping[str, Any]], *, is_cut: bool = False
) -> tuple[Action, ...]:
    """The actions in an answer, in order, at least one; `is_cut` where it ended for its length.

    Raises ActionError, whose text a model can learn from, for an answer without any, for JSON that cannot be
    repaired without guessing, for unknown tools and for arguments that the tool's schema does not allow.
    Raises ConfigurationError for a tool whose schema is none.
    """
    return actions_in(text, tool_schemas(parse_tools(tools)), is_cut=is_cut)


def actions_in(text: str, schemas: Mapping[str, ToolSchema], *, is_cut: bool) -> tuple[Action, ...]:
    """`read_actions` with the tools' schemas at hand."""
    answer = "" if _is_open_thought(text) else _THOUGHT.sub("", text)
    try:
        calls = list(_calls(answer, schemas, is_cut))
    except NotJSONError as error:
        raise ActionError(f"the action is not valid JSON: {error}. Write it as {FORM}", text) from error
    if not calls:
        missing = "no action was found in the answer" if answer.strip() else "the answer is empty"
        raise ActionError(f"{missing}. Write it as {FORM}", text)
    if len(calls) > MAX_ACTIONS:
        raise ActionError(f"{len(calls)} actions in one answer; at most {MAX_ACTIONS} are read", text)
    try:
        return tuple(_checked(call, schemas) for call in calls)
    except NotJSONError as error:
        raise ActionError(str(error), text) from error


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as it was written."""

    name: str
    arguments: Any
    changes: tuple[str, ...]


def _is_open_thought(text: str) -> bool:
    return _OPEN_THOUGHT.match(text) is not None and _THOUGHT.match(text) is None


def _calls(text: str, schemas: Mapping[str, ToolSchema], is_cut: bool) -> Iterator[_Call]:
    at = 0
    for _ in range(MAX_STARTS):
        start = _BRACKET.search(text, at)
        if start is None:
            return
        try:
            read = read_strictly(text, start.start())
        except NotJSONError as error:
            if not _may_be_action(text, start.start(), schemas):
                at = start.end()
                continue
            if not error.is_repairable:
                raise
            read = _repaired(text, start.start(), str(error), is_cut)
        at = read.end
        yield from _calls_of(read.value, schemas, read.changes)


def _may_be_action(text: str, start: int, schemas: Mapping[str, ToolSchema]) -> bool:
    if _BEGINS_ACTION.match(text, start):
        return True
    key = re.compile(r"""\{\s*["']?([^"':\s]{1,128})["']?\s*:\s*\{""").match(text, start)
    return key is not None and key[1] in schemas


def _repaired(text: str, start: int, problem: str, is_cut: bool) -> Read:
    """The value at `start`, repaired. One without an end goes to that of its fence or tag, or of the answer.

    What is missing there is no more than brackets: a text that was cut off is not the text that was meant,
    and in an answer that ended for its length (`is_cut`) nothing is.
    """
    found = extent(text, start)
    end = found.end
    if end is None:
        before = text[:start]
        is_inside = before.count("```") % 2 == 1 or _OPEN_TAG.search(before)
        closing = _CLOSING.search(text, start) if is_inside else None
        if found.is_in_text or (is_cut and closing is None):
            raise NotJSONError(f"{problem}; the answer ends before the action does")
        end = closing.start() if closing else len(text)
    read = repaired(text[start:end].rstrip(), problem)
    return Read(read.value, end, read.changes)


def _calls_of(value: Any, schemas: Mapping[str, ToolSchema], changes: tuple[str, ...]) -> Iterator[_Call]:
    """The calls a value is or holds; nothing for what is no call."""
    if isinstance(value, list):
        for item in value:
            yield from _calls_of(item, schemas, changes)
        return
    if not isinstance(value, dict):
        return
    for key in ("tool_calls", "tool_call", "actions", "action", "function"):
        if isinstance(value.get(key), dict | list):
            yield from _calls_of(value[key], schemas, changes)
            return
    name: str | None = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is not None:
        given = next((key for key in ARGUMENT_KEYS if key in value), None)
        if given is not None:
            yield _Call(name, value[given], changes)
        elif name in schemas:
            beside = {key: item for key, item in value.items() if key in schemas[name].properties}
            said: tuple[str, ...] = (
                (f"its arguments stood beside the name: {', '.join(beside)}",) if beside else ()
            )
            left = [key for key in value if key not in beside and value[key] != name]
            if left:
                said += (f"not arguments of {name}: {', '.join(left)}",)
            yield _Call(name, beside, (*changes, *said))
    elif len(value) == 1:
        ((only, arguments),) = value.items()
        if only in schemas and isinstance(arguments, dict):
            yield _Call(only, arguments, changes)


def _checked(call: _Call, schemas: Mapping[str, ToolSchema]) -> Action:
    if call.name not in schemas:
        known = ", ".join(schemas)
        raise NotJSONError(f"there is no tool {call.name[:128]!r}; the tools are: {known}")
    checked = schemas[call.name].check(call.arguments, is_exact=not call.changes)
    return Action(call.name, checked.arguments, (*call.changes, *checked.changes))
