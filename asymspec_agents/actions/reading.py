"""Actions out of a model's answer: found in prose, code fences or tags, and checked against the tools.

What counts as an action is an object that names a tool beside its arguments, by any of the usual keys
(`{"name": …, "arguments": {…}}`, `{"action": …, "action_input": …}`, OpenAI's nesting under `function`), or
whose only key is a tool's name.

An action is what the model writes as one. What it quotes is none: an object inside of other data or of a
text, in quotes or in `code` amid prose. Nor is what follows the result of an action that the model made up
itself. What it writes out unquoted is taken as meant, though its prose may say the opposite.
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
from .results import RESULT
from .schema import ToolSchema, tool_schemas

__all__ = ["FORM", "actions_in", "read_actions"]

FORM = '{"name": "<tool>", "arguments": {…}}'
NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
ARGUMENT_KEYS = ("arguments", "args", "parameters", "input", "action_input", "tool_input")
MAX_STARTS = 1_000  # brackets tried as the beginning of an action: bounds the work on hostile text
MAX_ACTIONS = 64
_UNCLOSED = "the answer ends before the action does, or a quote or comment in it is not closed"

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_OPEN_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>")
_BRACKET = re.compile(r"""\{(?=\s*["'\w])|\[(?=\s*\{)""")  # as objects and lists of them begin
_DATA = re.compile(r"""[{\[][\s{\[]*(?:"[^"\n]{0,128}"|'[^'\n]{0,128}'|\w{1,128})\s*:""")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "„": "“"}
_BLOCK = re.compile(r"\n[ \t]*\n|^[ \t]*```.*$|<[A-Za-z/][^<>\n]*>", re.MULTILINE)
_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_RESULT = re.compile(
    rf"^[ \t*_#>]*(?:{RESULT.removesuffix(':')}s?|tool[ _](?:result|response|output)s?)[ \t*_]*:"
    r"|<(?:tool_response|tool_result|function_results?|observation)\b",
    re.MULTILINE | re.IGNORECASE,
)
_BEGINS_ACTION = re.compile(
    rf"""[{{\[][\s{{\[]*["']?(?:{"|".join((*NAME_KEYS, "tool_calls?", "actions?", "thoughts?"))})["']?\s*:"""
)


def read_actions(
    text: str, tools: Sequence[ToolSpec | Mapping[str, Any]], *, is_cut: bool = False
) -> tuple[Action, ...]:
    """The actions in an answer, in order, at least one; `is_cut` where the model was kept from going on.

    Nothing is completed: an action that its own brackets do not close is refused, however the answer ended,
    and in one that was cut off so is anything open that might have become an action. What stands behind the
    result of a tool that the model made up ("Observation:" at the beginning of a line) is not read.
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
    has_open_data = False  # looked for once, as it goes to the end of the text
    for _ in range(MAX_STARTS):
        start = _BRACKET.search(text, at)
        if start is None or _RESULT.search(text, at, start.start()):
            return
        place = start.start()
        if _is_quoted(text, at, place):
            at = start.end()
            continue
        try:
            read = read_strictly(text, place)
        except NotJSONError as error:
            if not _may_be_action(text, place, schemas):
                at = start.end()
                if not has_open_data and _DATA.match(text, place):
                    end = extent(text, place)
                    has_open_data = end is None
                    if end is None and is_cut:
                        raise NotJSONError(_UNCLOSED) from error
                    at = end or at
                continue
            if not error.is_repairable:
                raise
            read = _repaired(text, place, str(error))
        if not _is_code_amid_prose(text, place, read.end):
            yield from _calls_of(read.value, schemas, read.changes)
        at = read.end


def _is_quoted(text: str, at: int, start: int) -> bool:
    """Whether `start` is inside of double quotes that were opened behind `at`, in the same block of text."""
    blocks = [block.end() for block in _BLOCK.finditer(text, at, start)]
    quotes = [quote[0] for quote in _QUOTE.finditer(text, blocks[-1] if blocks else at, start)]
    return quotes.count('"') % 2 == 1


def _is_code_amid_prose(text: str, start: int, end: int) -> bool:
    """Whether what stands here is in quotes or backticks of its own, and not the whole answer."""
    quote = text[start - 1 : start]
    if quote not in _QUOTES or not text.startswith(_QUOTES[quote], end):
        return False
    before, after = text[: start - 1].rstrip(), text[end + 1 :].lstrip()
    is_fence = quote == "`" and text.startswith("``", max(start - 3, 0))
    return not is_fence and bool(before or after)


def _may_be_action(text: str, start: int, schemas: Mapping[str, ToolSchema]) -> bool:
    if _BEGINS_ACTION.match(text, start):
        return True
    key = re.compile(r"""\{\s*["']?([^"':\s]{1,128})["']?\s*:\s*\{""").match(text, start)
    return key is not None and key[1] in schemas


def _repaired(text: str, start: int, problem: str) -> Read:
    """The value at `start`, repaired; it ends with its last bracket, and without one it is refused."""
    end = extent(text, start)
    if end is None or _RESULT.search(text, start, end):
        raise NotJSONError(f"{problem}; {_UNCLOSED}")
    read = repaired(text[start:end], problem)
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
