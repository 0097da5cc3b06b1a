"""The language of a request's answer: which texts it takes and which it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from asymspec_agents.engine.answer import PLAIN, AnswerFormat
from asymspec_agents.engine.answer_grammar import AnswerMarks, answer_grammar
from asymspec_agents.engine.grammar import GrammarCompiler
from asymspec_agents.engine.reasoning import ReasoningMarks
from asymspec_agents.engine.tool_calls import parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools
from asymspec_agents.engine.tool_formats.json_formats import HERMES
from asymspec_agents.errors import ConfigurationError, UnsupportedRequestError
from asymspec_agents.messages import parse_tools

from .grammars import NUM_IDS, compiler
from .tiny_folder import WEATHER, byte_tokenizer

EOS = 257
TAGS = AnswerMarks('"<tool_call>"', '"</tool_call>"')
BARE = AnswerMarks()
CLOCK = {"type": "function", "function": {"name": 'the "clock"\\ é\n'}}
NAMED = {"type": "function", "function": {"name": "weather"}}


def takes(
    text: str, marks: AnswerMarks = BARE, tools: Any = (), choice: Any = None, form: Any = None, **fields: Any
) -> bool:
    """Whether an answer may be this text, whole."""
    source = answer_grammar(parse_tools(tools), choice, form, lambda: marks, **fields)
    assert source is not None
    matcher = compiler().compile(source).start(frozenset({EOS}), NUM_IDS)
    tokens = list(byte_tokenizer().encode(text, split_special_tokens=True))
    for number, token in enumerate(tokens, 1):
        if not matcher.place.allowed[token]:
            return False
        if matcher.advance([token]) is not None:
            return number == len(tokens)
    return bool(matcher.place.allowed[EOS])


def call(arguments: Any, name: str = "weather") -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {json.dumps(arguments)}}}'


def tagged(*calls: str) -> str:
    return "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in calls)


SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}}
ROME, OSLO, TIME = call({"city": "Rome"}), call({"city": "Oslo"}), call({}, 'the "clock"\\ é\n')


@pytest.mark.parametrize(
    ("text", "choice", "max_calls", "expected"),
    [
        (tagged(ROME), "required", None, True),
        (tagged(ROME, TIME, OSLO), "required", None, True),
        (tagged(ROME, OSLO), "required", 2, True),
        (tagged(ROME, OSLO, TIME), "required", 2, False),
        (tagged(ROME, OSLO), "required", 1, False),
        (tagged(ROME), NAMED, None, True),
        (tagged(ROME, OSLO), NAMED, None, False),
        (tagged(TIME), NAMED, None, False),
        ("", "required", None, False),
        ("Sure. " + tagged(ROME), "required", None, False),
        (tagged(ROME) + "\n", "required", None, True),
        (tagged(ROME) + "\n\n", "required", None, False),
        (tagged(ROME) + "\n", "required", 1, False),
        (tagged(call({"city": 3})), "required", None, False),
        (tagged(call({})), "required", None, False),
        (tagged(call({"city": "Rome", "country": "Italy"})), "required", None, False),
        (tagged(call({}, "clock")), "required", None, False),
        (tagged(call({"at": 3}, 'the "clock"\\ é\n')), "required", None, False),
        (ROME, "required", None, False),
    ],
)
def test_forced_calls_between_tags(text: str, choice: Any, max_calls: int | None, expected: bool) -> None:
    assert takes(text, TAGS, (WEATHER, CLOCK), choice, max_calls=max_calls) is expected
    if expected:
        parsed = parse_tool_calls(text, (HERMES,), Tools.of(parse_tools((WEATHER, CLOCK))), "c")
        assert parsed.content == ""
        assert len(parsed.tool_calls) == text.count("<tool_call>")


@pytest.mark.parametrize(
    ("text", "choice", "max_calls", "expected"),
    [
        (ROME, "required", None, True),
        (f"[{ROME}, {TIME}, {OSLO}]", "required", None, True),
        (f"[{ROME}, {TIME}, {OSLO}]", "required", 3, True),
        (f"[{ROME}, {TIME}, {OSLO}]", "required", 2, False),
        (f"[{ROME}]", "required", None, False),
        (f"{ROME}{ROME}", "required", None, False),
        (ROME, "required", 1, True),
        (f"[{ROME}, {OSLO}]", "required", 1, False),
        (ROME, NAMED, None, True),
        (f"[{ROME}, {OSLO}]", NAMED, None, False),
        (TIME, NAMED, None, False),
        ("[]", "required", None, False),
    ],
)
def test_forced_calls_without_tags(text: str, choice: Any, max_calls: int | None, expected: bool) -> None:
    assert takes(text, BARE, (WEATHER, CLOCK), choice, max_calls=max_calls) is expected
    if expected:
        parsed = parse_tool_calls(text, (HERMES,), Tools.of(parse_tools((WEATHER, CLOCK))), "c")
        assert len(parsed.tool_calls) == text.count('"name"')


DRAFT_7 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$ref": "#/definitions/n",
    "definitions": {"n": {"required": ["b"]}},
}


@pytest.mark.parametrize(
    ("parameters", "arguments", "expected"),
    [
        (None, {}, True),
        (None, {"a": 1}, False),
        ({}, {"a": [1, {"b": None}]}, True),
        ({"type": "object"}, {"a": 1}, True),
        ({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}, {"a": 1}, True),
        ({"type": ["object", "null"]}, None, False),
        ({"type": "object", "properties": {}}, {"a": 1}, False),
        ({"type": "object", "properties": {}, "additionalProperties": True}, {"a": 1}, True),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"enum": [1]}}}, {"a": 1}, True),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"enum": [1]}}}, {"a": 2}, False),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"required": ["b"]}}}, {"b": 2}, True),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"required": ["b"]}}}, {}, False),
        (DRAFT_7, {"b": 2}, True),
        (DRAFT_7, {}, False),
        ({"properties": {"a": {"$ref": "#"}}}, {"a": {"a": {}}}, True),
        ({"properties": {"a": {"$ref": "#"}}}, {"a": {"b": {}}}, False),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {"type": "null"}}}, {"xy": None}, True),
    ],
)
def test_arguments_are_an_object_of_the_tools_schema(
    parameters: Mapping[str, Any] | None, arguments: Any, expected: bool
) -> None:
    """References are those of the tool's own schema, though it stands among others."""
    other = {"name": "other", "parameters": {"properties": {}, "$defs": {"n": {"enum": [2]}}}}
    tools = [
        {"type": "function", "function": f} for f in (other, {"name": "weather", "parameters": parameters})
    ]
    assert takes(call(arguments), BARE, tools, "required") is expected


def test_responses() -> None:
    assert takes('{"a": [1.5e3, null], "": {}}', form={"type": "json_object"})
    assert takes("{}", form={"type": "json_object"})
    for text in ("[]", "", " {}", "{} ", '{"a"}', "{'a': 1}", '{"a": NaN}'):
        assert not takes(text, form={"type": "json_object"})
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "x-guidance": {"lenient": True}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": False}}
    assert takes("[1, 2]", form=form)
    assert takes("[1,\r\n\t2]", form=form)
    for text in ("[ 1]", "[1 ]", "[1 ,2]"):
        assert not takes(text, form=form)
    assert not takes("[1, 2, 3]", form=form)
    assert not takes("[1," + " " * 17 + "2]", form=form)


@pytest.mark.parametrize("marks", [TAGS, BARE], ids=["tags", "bare"])
def test_where_calls_are_free_the_answer_is_a_call_or_the_response(marks: AnswerMarks) -> None:
    form = {"type": "json_schema", "json_schema": {"schema": SUM}}
    called = tagged(ROME, OSLO) if marks is TAGS else f"[{ROME}, {OSLO}]"
    for choice in ("auto", None):
        assert takes('{"sum": 3}', marks, (WEATHER,), choice, form)
        assert takes(called, marks, (WEATHER,), choice, form)
        assert not takes(called, marks, (WEATHER,), choice, form, max_calls=1)
        assert not takes("3", marks, (WEATHER,), choice, form)
    assert takes('{"sum": 3}', marks, (WEATHER,), "none", form)
    assert not takes(called, marks, (WEATHER,), "none", form)
    assert not takes(called, marks, (), "auto", form)
    # a forced call leaves no room for the other
    assert takes(called, marks, (WEATHER,), "required", form)
    assert not takes('{"sum": 3}', marks, (WEATHER,), "required", form)


def not_called() -> AnswerMarks:
    pytest.fail("there is nothing to mark")


def test_any_text_needs_no_grammar() -> None:
    tools = parse_tools((WEATHER,))
    for choice in (None, "auto", "none"):
        for form in (None, {"type": "text"}):
            assert answer_grammar(tools, choice, form, not_called) is None


def test_a_thinking_model_thinks_first() -> None:
    form = {"type": "json_object"}
    thinking = AnswerFormat((HERMES,), ReasoningMarks("<think>", "</think>"), {})

    def marks(tail: str) -> AnswerMarks:
        return AnswerMarks.of(thinking, tail, compiler().term)

    ahead, opened, closed = marks("assistant\n"), marks("<think>\n"), marks("<think>\n\n</think>\n\n")
    for text in ("{}", "<think>{ so\n\n<b>?</think>\n\n{}", "<think></think>{}"):
        assert takes(text, ahead, form=form)
    assert not takes("well</think>{}", ahead, form=form)
    for text in ("well\n{}</think>\n{}", "</think>{}", "<think>\nwell</think>{}"):
        assert takes(text, opened, form=form)
    assert not takes("{}", opened, form=form)
    assert takes("{}", closed, form=form)
    assert not takes("<think></think>{}", closed, form=form)
    assert takes(f"hm</think>\n\n{tagged(ROME)}", opened, (WEATHER,), "required")
    # where the marks are tokens
    tokenizer = byte_tokenizer(["<think>", "</think>"])
    with_tokens = GrammarCompiler(tokenizer)
    source = answer_grammar((), None, form, lambda: AnswerMarks.of(thinking, "assistant\n", with_tokens.term))
    assert source is not None
    matcher = with_tokens.compile(source).start(frozenset(), len(tokenizer))
    answer = tokenizer.encode("<think>{}</think>\n\n{}")
    assert len(answer) == 8
    for token in answer[:-1]:
        assert matcher.place.allowed[token]
        assert matcher.advance([token]) is None
    assert matcher.advance(answer[-1:]) == 1


def test_marks_follow_the_models_format() -> None:
    assert AnswerMarks.of(PLAIN, "", compiler().term) == BARE
    hermes = AnswerFormat((HERMES,), None, {})
    assert AnswerMarks.of(hermes, "", compiler().term) == TAGS


@pytest.mark.parametrize(
    ("tools", "choice", "form", "error", "text"),
    [
        ((), "required", None, ConfigurationError, "^tool_choice='required' needs tools"),
        ((), NAMED, None, ConfigurationError, "^tool_choice=.*weather.* needs tools"),
        (({"type": "web_search"},), "required", None, ConfigurationError, "needs tools"),
        ((WEATHER, CLOCK), {"type": "function", "function": {"name": "wether"}}, None, ConfigurationError,
         "^tool_choice names 'wether', which is no tool here; tools: weather, the "),
        ((WEATHER,), "any", None, UnsupportedRequestError, "^tool_choice='any' is not supported; use 'auto'"),
        ((WEATHER,), {"type": "custom", "custom": {"name": "x"}}, None, UnsupportedRequestError, "custom"),
        ((), None, {"type": "grammar"}, UnsupportedRequestError, "^response_format of type 'grammar'"),
        ((), None, {"type": ["json_object"]}, UnsupportedRequestError, "^response_format of type"),
        ((), None, {"type": "json_schema"}, ConfigurationError, r"^response_format\.json_schema\.schema mus"),
        ((), None, {"type": "json_schema", "json_schema": {"name": "a"}}, ConfigurationError, "must be a"),
        ((), None, {"type": "json_schema", "json_schema": {"schema": True}}, ConfigurationError, "must be"),
        ((), None, {"type": "json_schema", "json_schema": {"schema": {"const": float("nan")}}},
         ConfigurationError, r"^response_format\.json_schema\.schema is no JSON schema"),
        ((), None, {"type": "json_schema", "json_schema": {"schema": {"const": {1, 2}}}},
         ConfigurationError, "is no JSON schema"),
    ],
)  # fmt: skip
def test_what_is_refused(tools: Any, choice: Any, form: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        answer_grammar(parse_tools(tools), choice, form, lambda: TAGS)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"type": "string"}, "must be of type object, not 'string'"),
        ({"type": ["null"]}, "must be of type object"),
        ({"properties": {"a": {"type": "strang"}}}, "cannot be enforced: .*strang"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1/x"}}}, "cannot be enforced: .*retrieving"),
        ({"properties": []}, "cannot be enforced: properties"),
    ],
)
def test_a_tool_that_cannot_be_enforced_is_named(parameters: Any, text: str) -> None:
    tool = {"type": "function", "function": {"name": "broken", "parameters": parameters}}
    with pytest.raises(ConfigurationError, match=f"^tools: the parameters of 'broken' {text}"):
        takes("", BARE, (WEATHER, tool), "required")
