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


@pytest.mark.parametrize("name", ["tools", "messages", "conversation", "tokenize", "add_generation_prompt"])
def test_the_prompt_itself_is_no_template_variable(template: ChatTemplate, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"chat_template_kwargs: {name} is fixed"):
        template.ids(parse_messages([{"role": "user", "content": "x"}]), (), {name: None})


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
