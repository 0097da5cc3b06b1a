"""Streaming tool calls: however a text is cut, the same content and calls come of it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from asymspec_agents.engine.tool_calls import ParsedText, ToolCallStream, parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools
from asymspec_agents.engine.tool_formats.json_formats import HERMES

OPEN, CLOSE = "<tool_call>", "</tool_call>"
NAMES = ("f", "g")
TOOLS = Tools({name: {} for name in NAMES})

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from([OPEN, CLOSE, "a<"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
calls = st.builds(
    lambda name, value: json.dumps({"name": name, "arguments": value}, ensure_ascii=False),
    st.sampled_from(["f", "g", "h"]),
    arguments,
)
blocks = st.builds(
    lambda before, call, after, close: OPEN + before + call + after + close,
    st.sampled_from(["", "\n", "  "]),
    calls | st.builds(lambda some: f"[{', '.join(some)}]", st.lists(calls, max_size=2)),
    st.sampled_from(["", "\n", "}", " and"]),
    st.sampled_from([CLOSE, CLOSE, ""]),
)
fragments = st.sampled_from(
    [OPEN, CLOSE, OPEN[:5], "<", "{", "[", "```", "```json\n", "\n", " ", "\xa0", "}"]
)
texts = st.lists(blocks | calls | fragments | st.text(max_size=5), max_size=6).map("".join)


def whole_answer(text: str) -> ParsedText:
    return parse_tool_calls(text, (HERMES,), TOOLS, "c")


def streamed(text: str, cuts: list[int]) -> tuple[str, object]:
    """What the pieces between the cuts give: the content sent, and the calls."""
    stream = ToolCallStream((HERMES,), TOOLS, "c")
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    sent = ""
    for start, end in itertools.pairwise(places):
        sent += stream.push(text[start:end])
        assert OPEN not in sent  # before the end nothing of a block, good or bad
    rest = stream.finish()
    return sent + rest.content, rest.tool_calls


@given(texts, st.lists(st.integers(0, 80), max_size=12))
@example(f"  a {OPEN}" + '{"name": "f", "arguments": {}}' + CLOSE, [3])
@example("```", [1, 2])
def test_any_cutting_gives_the_whole_answers_content_and_calls(text: str, cuts: list[int]) -> None:
    whole = whole_answer(text)
    assert streamed(text, cuts) == (whole.content, whole.tool_calls)
    assert streamed(text, list(range(len(text)))) == (whole.content, whole.tool_calls)


@given(texts)
def test_an_answer_is_either_untouched_or_has_calls(text: str) -> None:
    whole = whole_answer(text)
    if not whole.tool_calls:
        assert whole.content == text
    ids = [str(call.id) for call in whole.tool_calls]
    assert ids == sorted(set(ids))


@given(
    st.text(alphabet="ab .\n", max_size=8),
    st.lists(st.tuples(st.sampled_from(NAMES), arguments), min_size=1, max_size=3),
)
def test_written_calls_are_read_back(head: str, wanted: list[tuple[str, dict[str, object]]]) -> None:
    bodies = [json.dumps({"name": name, "arguments": value}) for name, value in wanted]
    answer = whole_answer(head + "\n".join(OPEN + body + CLOSE for body in bodies))
    assert answer.content == (head.rstrip() if head.strip() else "")
    read = [(c.function.name, json.loads(c.function.arguments)) for c in answer.tool_calls if c.function]
    assert read == wanted
