"""Answers of every family, with reasoning: however they are cut, the same content, reasoning and calls."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from asymspec_agents.engine.answer import AnswerFormat, AnswerPiece, AnswerStream, ParsedAnswer
from asymspec_agents.engine.reasoning import KINDS
from asymspec_agents.engine.tool_formats.table import FORMATS
from asymspec_agents.messages import parse_tools
from tests.engine.families import TEMPLATES, formats

TOOLS = parse_tools(
    [
        {"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}},
        {"function": {"name": "g"}},
    ]
)
MARKS = sorted({mark for fmt in FORMATS for mark in (*fmt.openings, *fmt.marks)})
THOUGHTS = [mark for kind in KINDS[:2] for mark in (kind.opening, kind.closing)]
CALLS = [
    '{"name": "f", "arguments": {"a": "b"}}',
    '[{"name": "g", "parameters": {}}]',
    'f[ARGS]{"a": 1}',
    "[f(a='b'), g()]",
    "\nprint(f(a='b'))\n```",
    "<function=f><parameter=a>b</parameter></function>",
    "f<arg_key>a</arg_key><arg_value>b</arg_value></tool_call>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
]
fragments = st.one_of(
    st.sampled_from(MARKS + THOUGHTS),
    st.sampled_from(CALLS),
    st.sampled_from(["\n", "\n\n", " ", "<", "[", "`", "```", "a", " b", "\r\n", "\xa0", ";", "{"]),
    st.sampled_from(MARKS + THOUGHTS).map(lambda mark: mark[: len(mark) // 2]),
)
texts = st.lists(fragments, max_size=8).map("".join)
tails = st.sampled_from(["assistant\n", "<think>\n", "<think>\n\n</think>\n\n", "[THINK]"])


def streamed(stream: AnswerStream, text: str, cuts: list[int]) -> ParsedAnswer:
    """What the pieces between the cuts give, added up."""
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    sent = [stream.push(text[start:end]) for start, end in itertools.pairwise(places)]
    rest = stream.finish()
    sent.append(AnswerPiece(rest.content, rest.reasoning))
    return ParsedAnswer(
        "".join(piece.content for piece in sent),
        "".join(piece.reasoning for piece in sent),
        rest.tool_calls,
    )


@pytest.mark.parametrize("family", sorted(TEMPLATES))
@given(
    text=texts, cuts=st.lists(st.integers(0, 90), max_size=8), tail=tails, marks=st.sampled_from(KINDS[:2])
)
def test_any_cutting_gives_the_same_answer(
    family: str, text: str, cuts: list[int], tail: str, marks: object
) -> None:
    for reasoning in (None, marks):
        answer_format = AnswerFormat(formats(family), reasoning, {})  # type: ignore[arg-type]
        whole = streamed(AnswerStream(answer_format, TOOLS, "c", tail), text, [])
        for places in (cuts, list(range(len(text)))):
            assert streamed(AnswerStream(answer_format, TOOLS, "c", tail), text, places) == whole
        for call in whole.tool_calls:
            assert call.function is not None
            assert isinstance(json.loads(call.function.arguments), dict)
        if reasoning is None:
            assert whole.reasoning == ""
            if not whole.tool_calls:
                assert whole.content == text
        assert whole.reasoning == whole.reasoning.strip("\r\n")
        without = streamed(AnswerStream(answer_format, (), "c", tail), text, cuts)
        assert without.reasoning == whole.reasoning
        assert without.tool_calls == ()


@given(
    thought=st.text("ab \n<", max_size=6),
    content=st.text("ab \n<", max_size=6),
    marks=st.sampled_from(KINDS),
    is_opened=st.booleans(),
)
def test_reasoning_is_what_stands_in_the_block(
    thought: str, content: str, marks: object, is_opened: bool
) -> None:
    kind = next(kind for kind in KINDS if kind == marks)
    answer_format = AnswerFormat((), kind, {})
    text = ("" if is_opened else kind.opening) + f"\n{thought}\n{kind.closing}\n\n{content}"
    tail = f"assistant\n{kind.opening}\n" if is_opened else "assistant\n"
    whole = streamed(AnswerStream(answer_format, (), "c", tail), text, [])
    assert whole == ParsedAnswer(content.lstrip("\n"), thought.strip("\n"), ())
    cut = streamed(AnswerStream(answer_format, (), "c", tail), text.split(kind.closing)[0], [3])
    assert cut == ParsedAnswer("", thought.strip("\n"), ())
    closed = streamed(AnswerStream(answer_format, (), "c", tail + kind.closing), text, [3])
    assert closed == ParsedAnswer(text, "", ())
