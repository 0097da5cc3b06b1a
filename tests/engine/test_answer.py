"""An answer in the model's own format, from tokens to content, reasoning and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.backends.request import CompletionRequest
from asymspec_agents.engine.answer import AnswerFormat, AnswerStream
from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.reasoning import ReasoningMarks

from .tiny_folder import CHAT_TEMPLATE, WEATHER, ask, byte_tokenizer, writing_backend

THINK = ReasoningMarks("<think>", "</think>")
ARGUMENTS = '{"city": "Oslo"}'
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


def with_template(backend: LocalBackend, template: str, special: Sequence[str] = ()) -> LocalBackend:
    """The backend with another chat template and some of its tokens made special."""
    tokenizer = backend.template.tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.chat_template = template
    return LocalBackend(backend.engine, ChatTemplate(tokenizer))


def answer(backend: LocalBackend, **fields: Any) -> tuple[str, str, list[tuple[str, str]]]:
    """Content, reasoning and calls, streamed."""
    backend.engine.prefixes.clear()
    response = backend.generate(ask(**{"tools": (WEATHER,), "max_tokens": None, **fields}))
    functions = [call.function for call in response.tool_calls if call.function]
    return response.content, response.reasoning, [(f.name, f.arguments) for f in functions]


def test_marks_that_are_special_tokens_reach_the_parser() -> None:
    pieces = ["Hm. ", "[TOOL_CALLS]", "weather", "[ARGS]", ARGUMENTS, "<pad>"]
    template = CHAT_TEMPLATE + "{# [TOOL_CALLS] #}"
    backend = with_template(writing_backend(pieces), template, ("[TOOL_CALLS]", "[ARGS]", "<pad>"))
    assert answer(backend) == ("Hm.", "", [("weather", ARGUMENTS)])
    response = backend.generate(ask(tools=(WEATHER,), max_tokens=None))
    assert response.raw_text == "".join(pieces[:-1])  # other special tokens have no text


@pytest.mark.parametrize("fields", [{"tools": ()}, {"tool_choice": "none"}])
def test_without_tools_marks_have_no_text(fields: dict[str, Any]) -> None:
    pieces = ["Hm. ", "[TOOL_CALLS]", "weather", "[ARGS]", ARGUMENTS]
    backend = with_template(
        writing_backend(pieces), "[TOOL_CALLS]" + CHAT_TEMPLATE, ("[TOOL_CALLS]", "[ARGS]")
    )
    assert answer(backend, **fields) == (f"Hm. weather{ARGUMENTS}", "", [])


def test_a_mark_without_a_call_stays_content() -> None:
    backend = with_template(
        writing_backend(["x", "[TOOL_CALLS]", "no call"]), "[TOOL_CALLS]" + CHAT_TEMPLATE, ("[TOOL_CALLS]",)
    )
    assert answer(backend) == ("x[TOOL_CALLS]no call", "", [])


@pytest.mark.parametrize(
    ("stop", "content"),
    [
        (("CALLS",), "xTOOLno call"),  # not inside a mark
        (("L[T",), "xTOOLno call"),  # nor over its border
        (("OL",), "xTO"),
        (("[TOOL_CALLS]",), "xTOOL"),
        (("no",), "xTOOL"),
    ],
)
def test_stop_strings_see_a_mark_as_one(stop: tuple[str, ...], content: str) -> None:
    pieces = ["x", "TOOL", "[TOOL_CALLS]", "no call"]
    backend = with_template(writing_backend(pieces), "[TOOL_CALLS]" + CHAT_TEMPLATE, ("[TOOL_CALLS]",))
    assert answer(backend, stop=stop)[0].replace("[TOOL_CALLS]", "") == content


@pytest.mark.parametrize("is_special", [False, True])
def test_reasoning_is_apart_from_the_content(is_special: bool) -> None:
    pieces = ["<think>", "\n\n", "I ", "<tool_call>", " \n", "</think>", "\n\n\n", "Hello", " you"]
    special = ("<think>", "</think>") if is_special else ()
    backend = with_template(writing_backend(pieces), CHAT_TEMPLATE + SWITCH, special)
    assert answer(backend) == ("Hello you", "I <tool_call> ", [])
    assert answer(backend, tools=()) == ("Hello you", "I <tool_call> ", [])
    cut = answer(backend, max_tokens=5)
    assert cut == ("", "I <tool_call> ", [])


def test_a_call_inside_reasoning_is_none_and_one_behind_it_is() -> None:
    call = ["<tool_call>", '{"name": "weather", "arguments": ', ARGUMENTS, "}", "</tool_call>"]
    inside = ["<think>", *call, "</think>"]
    backend = with_template(writing_backend(inside), CHAT_TEMPLATE + SWITCH)
    assert answer(backend) == ("", "".join(call), [])
    behind = ["<think>", "hm", "</think>", *call]
    backend = with_template(writing_backend(behind), CHAT_TEMPLATE + SWITCH)
    assert answer(backend) == ("", "hm", [("weather", ARGUMENTS)])


def test_a_prompt_may_open_or_close_the_reasoning() -> None:
    pieces = ["so", "</think>", "yes"]
    opened = with_template(writing_backend(pieces), CHAT_TEMPLATE + '{{ "<think>\n" }}')
    assert answer(opened) == ("yes", "so", [])
    switched = with_template(writing_backend(pieces), CHAT_TEMPLATE + SWITCH)
    variables = {"chat_template_kwargs": {"enable_thinking": False}}
    assert answer(switched, **variables) == ("so</think>yes", "", [])
    assert answer(switched) == ("so</think>yes", "", [])  # never opened


def test_a_template_that_knows_no_reasoning_leaves_the_tags() -> None:
    pieces = ["<think>", "x", "</think>", "y"]
    assert answer(writing_backend(pieces)) == ("<think>x</think>y", "", [])


def test_a_completion_is_text_as_it_is() -> None:
    pieces = ["<think>", "x", "</think>", "<tool_call>", "y"]
    backend = with_template(writing_backend(pieces), CHAT_TEMPLATE + SWITCH)
    response = backend.generate(CompletionRequest(prompt="a\n"))
    assert (response.content, response.reasoning) == ("".join(pieces), "")


def stream(text: str, tail: str) -> tuple[str, str]:
    """Content and reasoning, the same whole and letter by letter."""
    found = set()
    for pieces in ([text], list(text)):
        one = AnswerStream(AnswerFormat((), THINK, {}), (), "c", tail)
        sent = [one.push(piece) for piece in pieces]
        rest = one.finish()
        found.add(
            (
                "".join(p.content for p in sent) + rest.content,
                "".join(p.reasoning for p in sent) + rest.reasoning,
            )
        )
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("tail", "text", "content", "reasoning"),
    [
        ("", "<think>\na\n\nb\n</think>\n\nc\n", "c\n", "a\n\nb"),
        ("", " \n<think>a</think>c", "c", "a"),
        ("", "<think>\r\n a \r\n</think>\r\n c", " c", " a "),
        ("", "<think></think>c", "c", ""),
        ("", "<think>\n\n</think>\n\n", "", ""),
        ("", "c <think>a</think>", "c <think>a</think>", ""),
        ("", "c</think>d", "c</think>d", ""),
        ("", " <thi", " <thi", ""),
        ("", "", "", ""),
        ("", "<think>a</thi", "", "a</thi"),
        ("", "<think>a\n", "", "a"),
        ("", "<think>a</think>b</think>c", "b</think>c", "a"),
        ("<think>", "a</think>c", "c", "a"),
        ("<think>\n", "<think>\na</think>c", "c", "a"),
        ("<think>\n", "", "", ""),
        ("<think>\n", "<thi", "", "<thi"),
        ("<think>\n", "</think>c", "c", ""),
        ("<think>\n\n</think>\n\n", "a</think>c", "a</think>c", ""),
        ("</think>", "<think>a</think>c", "<think>a</think>c", ""),
    ],
)
def test_splitting(tail: str, text: str, content: str, reasoning: str) -> None:
    assert stream(text, "<|im_start|>assistant\n" + tail) == (content, reasoning)


def test_reasoning_streams_as_soon_as_it_is_certain() -> None:
    one = AnswerStream(AnswerFormat((), THINK, {}), (), "c", "")
    pushed = [one.push(piece) for piece in ("<thi", "nk>\n", "a <", "b\n", "c</", "think>", "\n", "d")]
    assert [piece.reasoning for piece in pushed] == ["", "", "a ", "<b", "\nc", "", "", ""]
    assert [piece.content for piece in pushed] == [""] * 7 + ["d"]


def formats_of(template: Any, special: Sequence[str] = ()) -> AnswerFormat:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.chat_template = template
    return AnswerFormat.of(tokenizer)


def test_the_format_is_found_once_for_a_tokenizer() -> None:
    assert formats_of(None).tool_formats == formats_of("no tools").tool_formats
    assert formats_of(None).reasoning is None
    named = formats_of({"default": "a", "tool_use": "[TOOL_CALLS] [/THINK]"}, ["[TOOL_CALLS]", "[THINK]"])
    assert [fmt.name for fmt in named.tool_formats] == ["mistral"]
    assert named.reasoning == ReasoningMarks("[THINK]", "[/THINK]")
    assert sorted(named.special_tokens.values()) == ["[THINK]", "[TOOL_CALLS]"]
    assert [fmt.name for fmt in formats_of("", ["<|tool_call|>"]).tool_formats] == ["piped"]
