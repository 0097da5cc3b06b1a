"""Chat messages as a model reads them: the text of the prompt, for every shape messages take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.errors import ConfigurationError, MessageError
from asymspec_agents.messages import parse_messages, parse_tools

from .tiny_folder import WEATHER, byte_tokenizer

END = "<|im_start|>assistant\n"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(byte_tokenizer())


def shown(template: ChatTemplate, *messages: Any, tools: Any = (), **variables: Any) -> str:
    """The prompt's text, without the generation prompt every one of them ends with."""
    ids = template.ids(parse_messages(messages), parse_tools(tools), variables)
    text = str(template.tokenizer.decode(ids))
    if variables:
        return text
    assert text.endswith(END)
    return text.removesuffix(END)


def body(template: ChatTemplate, content: Any, role: str = "user", **fields: Any) -> str:
    """What stands between the role and the end of one message."""
    text = shown(template, {"role": role, "content": content, **fields})
    start, end = f"<|im_start|>{role}\n", "<|im_end|>\n"
    assert text.startswith(start)
    assert text.endswith(end)
    return text[len(start) : -len(end)]


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        ("", ""),
        (None, ""),
        ([], ""),
        ("天气 😀 e\u0301 \x00 \r\n\t", "天气 😀 e\u0301 \x00 \r\n\t"),
        ("a\ud800b\udc00\ud83d", "a\ufffdb\ufffd\ufffd"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b\udcff"}], "a\nb\ufffd"),
        ([{"type": "text", "text": "look"}, IMAGE], "look\n[image_url]"),
        ([{"type": "file", "file": {"file_id": "x"}}], "[file]"),
        ([{"type": "text", "text": ""}, {"type": "odd\ud800"}], "\n[odd\ufffd]"),
        ("{{ 7 * 7 }} {% raw %}", "{{ 7 * 7 }} {% raw %}"),
    ],
)
def test_content(template: ChatTemplate, content: Any, text: str) -> None:
    for role in ("system", "user", "assistant", "tool"):
        assert body(template, content, role) == text


def test_absent_content_is_empty_content(template: ChatTemplate) -> None:
    for role in ("user", "assistant", "tool"):
        assert shown(template, {"role": role}) == shown(template, {"role": role, "content": ""})


def test_a_call_message_keeps_its_null_content(template: ChatTemplate) -> None:
    """Some templates tell messages with calls by it."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content is none }} {{ m.content }};{% endfor %}"
    calls = {"role": "assistant", "tool_calls": [call("{}")]}
    messages = parse_messages(
        [calls, {**calls, "content": None}, {**calls, "content": "x"}, {"role": "user"}]
    )
    text = tokenizer.decode(ChatTemplate(tokenizer).ids(messages))
    assert text == "True None;True None;False x;False ;"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"city":"Oslo","n":[1,2.5,null]}', '{"city": "Oslo", "n": [1, 2.5, null]}'),
        ({"city": "Oslo"}, '{"city": "Oslo"}'),
        ("{}", "{}"),
        ('{"city": "Os', '"{\\"city\\": \\"Os"'),
        ("not json", '"not json"'),
        ("[1]", '"[1]"'),
        ("", '""'),
        (None, "null"),
        ('{"a": "\\ud83d"}', '{"a": "\ufffd"}'),
        ({"a\ud800": "\udc00"}, '{"a\ufffd": "\ufffd"}'),
        ('{"a": "\\u0000 天 😀"}', '{"a": "\\u0000 天 😀"}'),
    ],
)
def test_arguments_are_written_as_json_once(template: ChatTemplate, arguments: Any, text: str) -> None:
    message = body(template, None, "assistant", tool_calls=[call(arguments)])
    assert message == f"\n<call>f {text}</call>"


@pytest.mark.parametrize("arguments", ["[" * 9_000, '{"a":' * 3_000, "1" * 9_000])
def test_absurd_arguments_stay_text(template: ChatTemplate, arguments: str) -> None:
    message = body(template, "x", "assistant", tool_calls=[call(arguments)])
    assert json.loads(message.removeprefix("x\n<call>f ").removesuffix("</call>")) == arguments


def test_a_conversation_with_calls_and_results(template: ChatTemplate) -> None:
    text = shown(
        template,
        {"role": "user", "content": "Weather?", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call("{}"), call('{"a": 1}')]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "sun"}]},
        {"role": "tool", "tool_call_id": "2", "content": "rain"},
        tools=[WEATHER],
    )
    assert text == (
        f"<|im_start|>system\n{json.dumps(WEATHER)}\n<|im_end|>\n"
        "<|im_start|>user\nWeather?<|im_end|>\n"
        '<|im_start|>assistant\n\n<call>f {}</call>\n<call>f {"a": 1}</call><|im_end|>\n'
        "<|im_start|>tool\nsun<|im_end|>\n<|im_start|>tool\nrain<|im_end|>\n"
    )


def test_tools_may_hold_any_text(template: ChatTemplate) -> None:
    tool = {
        "type": "function",
        "function": {"name": "f\ud800", "description": "\x00 😀 <|x|>", "z": {"\udc00": 1}},
    }
    text = shown(template, {"role": "user", "content": "x"}, tools=[tool])
    assert '"name": "f\ufffd", "description": "\\u0000 😀 <|x|>", "z": {"\ufffd": 1}' in text
    assert shown(template, {"role": "user", "content": "x"}, tools=[]) == "<|im_start|>user\nx<|im_end|>\n"


def test_special_tokens_are_single_ids_and_none_is_added(template: ChatTemplate) -> None:
    ids = template.ids(parse_messages([{"role": "user", "content": "é"}]))
    assert len(ids) == len("\nuser\n\nassistant\n") - 1 + len("é".encode()) + 3


def test_what_the_template_refuses_is_a_message_error(template: ChatTemplate) -> None:
    with pytest.raises(MessageError, match="refuses these messages: no such role: developer"):
        shown(template, {"role": "developer", "content": "x"})


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[9].content }}",
        "{{ 'a' + 1 }}",
        "{{ messages[0].content.nothing() }}",
        "{% if %}",
        "{{ x | y }}",
    ],
)
def test_a_template_that_fails_is_a_message_error(source: str) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = source
    with pytest.raises(MessageError, match="template refuses"):
        ChatTemplate(tokenizer).ids(parse_messages([{"role": "user", "content": "x"}]))


def test_no_messages_and_no_template_are_message_errors(template: ChatTemplate) -> None:
    with pytest.raises(MessageError, match="at least one message"):
        template.ids(())
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(MessageError, match=r"chat_template"):
        ChatTemplate(tokenizer).ids(parse_messages([{"role": "user", "content": "x"}]))


def test_a_message_that_is_no_json_is_a_message_error(template: ChatTemplate) -> None:
    with pytest.raises(MessageError, match="not JSON serializable"):
        body(template, "x", "assistant", tool_calls=[call({"a": {1, 2}})])


def test_template_variables(template: ChatTemplate) -> None:
    user = {"role": "user", "content": "x"}
    assert shown(template, user, mood="glad").endswith(END + "[glad]\n")
    assert shown(template, user, unknown=1).endswith(END)


@pytest.mark.parametrize(
    "name",
    [
        "tools",
        "messages",
        "conversation",
        "conversations",
        "self",
        "tokenize",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "documents",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
    ],
)
def test_the_prompt_itself_is_no_template_variable(template: ChatTemplate, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"chat_template_kwargs: {name} is fixed"):
        template.ids(parse_messages([{"role": "user", "content": "x"}]), (), {name: None})


@pytest.mark.parametrize("name", [1, None, ("a",)])
def test_a_variable_without_a_proper_name_is_refused(template: ChatTemplate, name: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"chat_template_kwargs: the name .* must be a string"):
        template.ids(parse_messages([{"role": "user", "content": "x"}]), (), {name: 1})


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "x", "extra": nested(5_000)},
        {"content": "x", "tool_calls": [call(nested(5_000))]},
        {"content": "x", "tool_calls": [call({"a": 10**5_000})]},
        {"content": "x", "tool_calls": [call({"a": object()})]},
        {"content": "x", "name": "y", "tool_calls": [{"id": "1"}]},
    ],
)
def test_hostile_messages_end_as_a_message_error(template: ChatTemplate, fields: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        template.ids(parse_messages([{"role": "user", "content": "x"}, {"role": "assistant", **fields}]))


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 // 0 }}",
        "{{ 'x' * 10**30 }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{{ messages.__class__.mro() }}",
        "{{ 10**5000 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_whatever_a_template_does_is_a_message_error(source: str) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = source
    with pytest.raises(MessageError, match="template refuses"):
        ChatTemplate(tokenizer).ids(parse_messages([{"role": "user", "content": "x"}]))


def test_hostile_tools_and_variables(template: ChatTemplate) -> None:
    messages = parse_messages([{"role": "user", "content": "x"}])
    with pytest.raises(MessageError):
        template.ids(messages, parse_tools([{"function": {"name": "f", "parameters": nested(5_000)}}]))
    with pytest.raises(ConfigurationError, match="chat_template_kwargs: a value is nested too deeply"):
        template.ids(messages, (), {"mood": nested(5_000)})


def test_a_template_that_wants_short_ids_gets_them() -> None:
    """Mistral's demand nine letters and digits; a call and its result keep the same id."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{% if c.id | length != 9 %}{{ raise_exception('ids need length 9') }}{% endif %}{{ c.id }}="
        "{% endfor %}{{ m.tool_call_id or '' }}{% endfor %}"
    )
    template = ChatTemplate(tokenizer)

    def rendered(call_id: str) -> str:
        calls = [{**call("{}"), "id": call_id}]
        return str(
            tokenizer.decode(
                template.ids(
                    parse_messages(
                        [
                            {"role": "assistant", "tool_calls": calls},
                            {"role": "tool", "tool_call_id": call_id},
                        ]
                    )
                )
            )
        )

    assert rendered("abcDEF123") == "abcDEF123=abcDEF123"
    first, second = rendered("call_1").split("=")
    assert first == second
    assert rendered("call_1") != rendered("call_2")


def test_rendering_does_not_change_the_messages(template: ChatTemplate) -> None:
    messages = parse_messages([{"role": "assistant", "tool_calls": [call('{"a": 1}')], "content": [IMAGE]}])
    before = [message.wire() for message in messages]
    first = template.ids(messages)
    assert template.ids(messages) == first
    assert [message.wire() for message in messages] == before


def test_a_template_that_needs_a_text_beside_tool_calls_gets_an_empty_one() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + ':' + m.content + ';' }}{% endfor %}"
    strict = ChatTemplate(tokenizer)
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [call("{}")]}]
    assert strict.tokenizer.decode(strict.ids(parse_messages(messages))) == "user:Go.;assistant:;"
