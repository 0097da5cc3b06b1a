"""What an answer must look like, as a grammar: JSON of a response_format, calls that tool_choice forces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError, UnsupportedRequestError
from ..messages import FunctionSpec, ToolSpec
from .answer import AnswerFormat
from .grammar import GrammarSource, SchemaPart
from .tool_formats.json_formats import HERMES

__all__ = ["AnswerMarks", "answer_grammar"]

# JSON allows endless white space, and a small model that began with it does not find out again: there may be
# some behind commas and colons, and none elsewhere.
SPACE = r"[\x20\x0A\x0D\x09]{0,16}"
JSON_OPTIONS = {
    "x-guidance": {
        "whitespace_flexible": False,
        "item_separator": f",{SPACE}",
        "key_separator": f":{SPACE}",
    }
}


@dataclass(frozen=True, slots=True)
class AnswerMarks:
    """What a model writes around each call's JSON and around its reasoning, as terms of a grammar.

    Without marks, calls are bare JSON and nothing comes before the answer. Without `thought_open`, but with
    its end, the prompt has opened the reasoning already.
    """

    call_open: str = ""
    call_close: str = ""
    thought_open: str = ""
    thought_close: str = ""

    @classmethod
    def of(cls, answer_format: AnswerFormat, prompt_tail: str, term: Callable[[str], str]) -> AnswerMarks:
        """The marks of a model's answer to a prompt that ends so; `term` writes a text as a term.

        Calls in a format that is not JSON are forced as bare JSON, which is understood as well.
        """
        calls = (
            (term(HERMES.openings[0]), term(HERMES.marks[0])) if HERMES in answer_format.tool_formats else ()
        )
        thought = answer_format.reasoning
        where = "closed" if thought is None else thought.where(prompt_tail)
        if thought is None or where == "closed":
            return cls(*calls)
        opening = "" if where == "open" else term(thought.opening)
        return cls(*(calls or ("", "")), opening, term(thought.closing))


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of a grammar, the first of them what it is about, and the schemas in them."""

    lines: tuple[str, ...]
    parts: tuple[SchemaPart, ...]


def answer_grammar(
    tools: Sequence[ToolSpec],
    tool_choice: str | Mapping[str, Any] | None,
    response_format: Mapping[str, Any] | None,
    find_marks: Callable[[], AnswerMarks],
    *,
    max_calls: int | None = None,
) -> GrammarSource | None:
    """The grammar of a request's answer, None where it may be any text: `find_marks` is not called then.

    A forced call leaves no room for a response_format; a choice that is open lets the answer be either. A
    named tool is called once; otherwise tools are called as often as the model likes, or up to `max_calls`.
    Raises ConfigurationError for a choice or a response_format that is malformed, unknown or without tools.
    """
    schema = None if response_format is None else _response_schema(response_format)
    functions = [tool.function for tool in tools if tool.function is not None]
    if tool_choice not in (None, "auto", "none"):
        forced, marks = _chosen(functions, tool_choice), find_marks()
        most = max_calls if tool_choice == "required" else 1
        return _source("tool_choice", marks, calls=_calls(forced, marks, most))
    if schema is None:
        return None
    marks = find_marks()
    content = _Rules((f"content: %json {schema.schema}",), (schema,))
    if tool_choice == "none" or not functions:
        return _source("response_format", marks, content=content)
    return _source("response_format", marks, content=content, calls=_calls(functions, marks, max_calls))


def _source(origin: str, marks: AnswerMarks, **answers: _Rules) -> GrammarSource:
    """The grammar of an answer that is any one of those named, behind what a thinking model writes first."""
    lines = [f"answer: {' | '.join(answers)}"]
    for rules in answers.values():
        lines.extend(rules.lines)
    start = "answer"
    if marks.thought_close:
        thought = "thought" if not marks.thought_open else f"({marks.thought_open} thought)?"
        start = f"{thought} answer"
        is_token = marks.thought_close.startswith("<")
        if is_token:
            lines.append(f"thought: TEXT {marks.thought_close} BREAK?")
        else:  # text that ends where the mark first comes
            lines.append("thought: thinking BREAK?")
            lines.append(f"thinking[suffix={marks.thought_close}]: TEXT")
        lines.extend((r"TEXT: /(.|\n)*/", r"BREAK: /\n{1,4}/"))
    return GrammarSource(
        origin, "\n".join((f"start: {start}", *lines)), tuple(p for r in answers.values() for p in r.parts)
    )


def _response_schema(response_format: Mapping[str, Any]) -> SchemaPart | None:
    """The schema that a response_format asks for, None for text. Raises for a type that is not known."""
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return _part("response_format", {"type": "object"})
    if kind != "json_schema":
        raise UnsupportedRequestError(
            f"response_format of type {kind!r} is not supported; types: text, json_object, json_schema"
        )
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ConfigurationError("response_format.json_schema.schema must be a JSON schema, an object")
    return _part("response_format.json_schema.schema", schema)


def _chosen(functions: Sequence[FunctionSpec], choice: str | Mapping[str, Any]) -> list[FunctionSpec]:
    """The functions that a forcing tool_choice leaves."""
    name = None if choice == "required" else _chosen_name(choice)
    if not functions:
        raise ConfigurationError(f"tool_choice={choice!r} needs tools; give some or leave it out")
    chosen = [function for function in functions if name is None or function.name == name]
    if not chosen:
        known = ", ".join(dict.fromkeys(function.name for function in functions))
        raise ConfigurationError(f"tool_choice names {name!r}, which is no tool here; tools: {known}")
    return chosen


def _calls(functions: Sequence[FunctionSpec], marks: AnswerMarks, max_calls: int | None) -> _Rules:
    """An answer that is nothing but calls: marked, line by line, or bare JSON, several of it as a list."""
    arguments = [_arguments(function, number) for number, function in enumerate(functions)]
    parts = [_part(_origin(f), schema) for f, schema in zip(functions, arguments, strict=True)]
    call = {"anyOf": [_call(f.name, schema) for f, schema in zip(functions, arguments, strict=True)]}
    lines = [f"call: %json {_json(call)}"]
    one = rf'{marks.call_open} "\n" call "\n" {marks.call_close}' if marks.call_open else "call"
    if max_calls == 1:
        lines.append(f"calls: {one}")
    elif marks.call_open:
        most = "" if max_calls is None else max_calls - 1
        # A model may write the line's end before it decides whether to go on.
        lines.append(rf'calls: {one} ("\n" {one}){{0,{most}}} "\n"?')
    else:
        several = {"type": "array", "items": call, "minItems": 2}
        if max_calls is not None:
            several["maxItems"] = max_calls
        lines.extend(("calls: call | several", f"several: %json {_json(several)}"))
    return _Rules(tuple(lines), tuple(parts))


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _chosen_name(choice: str | Mapping[str, Any]) -> str:
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(choice, Mapping) or choice.get("type") != "function" or not isinstance(name, str):
        raise UnsupportedRequestError(
            f"tool_choice={choice!r} is not supported; use 'auto', 'none', 'required' or "
            '{"type": "function", "function": {"name": …}}'
        )
    return name


def _origin(function: FunctionSpec) -> str:
    return f"tools: the parameters of {function.name!r}"


def _arguments(function: FunctionSpec, number: int) -> dict[str, Any]:
    """The schema of a function's arguments: always an object, and of declared ones only where it has any."""
    schema = {"properties": {}} if function.parameters is None else dict(function.parameters)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ConfigurationError(f"{_origin(function)} must be of type object, not {kind!r}")
    schema["type"] = "object"
    if "properties" in schema and not schema.keys() & OPENING_KEYS:
        schema["additionalProperties"] = False
    # References are to the schema itself, which has an address of its own inside the grammar's; in drafts
    # before 2019-09 the address would be ignored beside a $ref.
    schema["$id"] = f"urn:asymspec:tool:{number}"
    schema.pop("$schema", None)
    return schema


# Keywords by which a schema with properties may allow others.
OPENING_KEYS = {
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "unevaluatedProperties",
}


def _part(origin: str, schema: Mapping[str, Any]) -> SchemaPart:
    try:
        return SchemaPart(origin, _json(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{origin} is no JSON schema: {error}") from error


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps({**schema, **JSON_OPTIONS}, allow_nan=False)
