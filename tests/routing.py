"""What the routing tests share: a counter and compressors with predictable results, conversations."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from asymspec_agents.attachments import Attachments
from asymspec_agents.compress.base import Rendition
from asymspec_agents.messages import Message, ToolSpec, parse_messages
from asymspec_agents.store import MemoryStore
from asymspec_agents.tokens import TokenCounter

Wire = dict[str, Any]


class QuarterCounter:
    """Four characters are a token, rounded up; remembers what it counted."""

    name = "quarter"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return -(-len(text) // 4)


class FirstChars:
    """Keeps the beginning; remembers queries. The query's first characters show in the rendition."""

    configuration = "first-chars/1"

    def __init__(self) -> None:
        self.queries: list[str] = []

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        self.queries.append(query)
        return Rendition(f"<{query[:12]}>{text}"[: target_tokens * 4], "first-chars", "text")


class Exploding:
    """Fails always."""

    configuration = "exploding/1"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        raise RuntimeError(f"cannot take {text}")


class Hanging:
    """Waits until released."""

    configuration = "hanging/1"

    def __init__(self) -> None:
        self.release = threading.Event()
        self.num_calls = 0

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        self.num_calls += 1
        self.release.wait(60)
        return Rendition(text[: target_tokens * 4], "hanging", "text")


def exact_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """A made-up chat template: three characters are a token, so that estimates fall short of it."""
    num_tokens = 20 + sum(20 + _thirds(tool.wire()) for tool in tools)
    for message in messages:
        num_tokens += 9 + sum(_thirds(text) for text in message.texts())
        num_tokens += sum(_thirds(call.wire()) for call in message.tool_calls or ())
        if isinstance(message.content, tuple):
            num_tokens += 1_100 * sum(part.type == "image_url" for part in message.content)
    return num_tokens


def _thirds(value: object) -> int:
    return -(-len(value if isinstance(value, str) else json.dumps(value, default=str)) // 3)


def as_read(messages: Sequence[Wire]) -> list[Wire]:
    """The messages with what the router puts in place of images and files."""
    return [message.wire() for message in Attachments().read(parse_messages(messages), MemoryStore()).full]


def text_of(message: Mapping[str, Any] | Message, part: int | None) -> str:
    """One text of a message."""
    content = message.content if isinstance(message, Message) else message["content"]
    if part is None:
        return content
    chosen = content[part]
    return chosen["text"] if isinstance(chosen, dict) else chosen.text


def places(messages: Sequence[Message]) -> list[tuple[int, int | None]]:
    """Where the plain texts stand: message and part."""
    found: list[tuple[int, int | None]] = []
    for index, message in enumerate(messages):
        if isinstance(message.content, str):
            found.append((index, None))
        for part, value in enumerate(message.content or () if not isinstance(message.content, str) else ()):
            if value.type == "text" and value.text is not None:
                found.append((index, part))
    return found


def skeleton(message: Message) -> Wire:
    """A message without its plain texts: what no view may change."""
    wire = message.wire()
    if isinstance(wire.get("content"), str):
        wire["content"] = ""
    elif wire.get("content") is not None:
        wire["content"] = [
            {**part, "text": ""} if part["type"] == "text" and part.get("text") is not None else part
            for part in wire["content"]
        ]
    return wire


def call(call_id: str | None, name: str = "search", arguments: Any = '{"q": "x"}') -> Wire:
    """A tool call."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def agent_run(num_turns: int, result_chars: int = 2_000) -> list[Wire]:
    """An agent's conversation: each turn one call and one result."""
    messages: list[Wire] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "When does the train to Rome leave?"},
    ]
    for turn in range(num_turns):
        messages.append({"role": "assistant", "content": None, "tool_calls": [call(f"c{turn}")]})
        line = f"row {turn}: some train leaves at {turn:02d}:15\n"
        text = (line * (result_chars // len(line) + 1))[:result_chars]
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": text})
    return messages


_SEEDS = (
    "The quick brown fox jumps over the lazy dog. ",
    "列車は十時十五分に出発します。",
    "👩‍👩‍👧‍👦🇮🇹 e\u0301 ",
    "\ud800 \udfff lone ",
    '{"id": 1.0, "name": "x"}, ',
    "<|endoftext|>\x00\r\n",
    "x",
    "2026-11-29T10:15:00Z ERROR 0xdeadbeef\n",
)
texts = st.builds(
    lambda seed, repeats, mark: f"{mark}{seed * repeats}",
    st.sampled_from(_SEEDS),
    st.sampled_from((0, 1, 3, 20, 40, 120, 400)),
    st.integers(0, 9).map(str) | st.just(""),
)
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}, "x_kept": 1}
_parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text, "x_kept": [1]}),
    st.just(_IMAGE),
    st.just({"type": "text"}),
    st.just({"type": "refusal", "text": "no"}),
)
_contents = st.none() | texts | st.lists(_parts, max_size=3)
_ids = st.sampled_from(("a", "b", "", None))
_calls = st.lists(
    st.builds(
        call, _ids, st.sampled_from(("search", "読む")), st.sampled_from(('{"q": 1}', {"q": [1.5]}, None))
    ),
    max_size=3,
)


def _labelled(marker: str) -> st.SearchStrategy[str]:
    return texts.map(lambda text: f"{marker}{text}")


_assistants = st.one_of(
    st.builds(
        lambda content, calls: {"role": "assistant", "content": content, "tool_calls": calls},
        _contents,
        _calls,
    ),
    st.builds(lambda content: {"role": "assistant", "content": content, "x_kept": "y"}, _contents),
    st.builds(lambda text: {"role": "assistant", "content": text}, _labelled("I look.\nCalling tools:\n[")),
)
_results = st.one_of(
    st.builds(
        lambda id_, content: {"role": "tool", "tool_call_id": id_, "content": content}, _ids, _contents
    ),
    st.builds(lambda content: {"role": "function", "name": "search", "content": content}, _contents),
    st.builds(lambda text: {"role": "user", "content": text}, _labelled("Observation:\n")),
    st.builds(
        lambda text: {"role": "user", "content": [_IMAGE, {"type": "text", "text": text}]},
        _labelled("Observation:\n"),
    ),
    st.builds(lambda text: {"role": "martian", "content": text}, texts),
)
_others = st.one_of(
    st.builds(lambda content: {"role": "user", "content": content}, _contents),
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(("system", "developer")),
        texts,
    ),
)
_turns = st.builds(lambda answer, results: [answer, *results], _assistants, st.lists(_results, max_size=3))
_groups = st.one_of(
    _turns, _turns, _turns, _others.map(lambda message: [message]), _results.map(lambda message: [message])
)
conversations: st.SearchStrategy[list[Wire]] = st.builds(
    lambda first, groups: [message for group in (first, *groups) for message in group],
    st.lists(_others, max_size=2),
    st.lists(_groups, max_size=8),
)
