"""How a message list reads as turns, and what a prompt has besides its texts."""

from __future__ import annotations

from typing import Any

import pytest

from asymspec_agents.messages import parse_messages, parse_tools
from asymspec_agents.views.prompt_size import as_written, message_overhead_tokens, tools_tokens
from asymspec_agents.views.turns import History, read_history
from tests.routing import Wire, agent_run, call


def read(messages: list[Wire]) -> History:
    return read_history(parse_messages(messages), ("Observation:",), ("Calling tools:",))


def kinds(messages: list[Wire]) -> list[tuple[str, int | None]]:
    return [(part.kind, part.turn) for part in read(messages).parts]


def test_each_role_has_its_kind_and_turn() -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "tool_calls": [{"id": "1"}, call("2")]},
        {"role": "tool", "tool_call_id": "2", "content": "r"},
        {"role": "function", "name": "f", "content": "r"},
        {"role": "user", "content": "Hurry"},
        {"role": "ipython", "content": "r"},
        {"role": "assistant", "content": "a"},
    ]
    assert kinds(messages) == [
        ("system", None),
        ("system", None),
        ("user", None),
        ("assistant", 0),
        ("result", 0),
        ("result", 0),
        ("user", None),
        ("result", 0),
        ("assistant", 1),
    ]
    assert read(messages).calls == ((3, 0), (8, 1), (9, 2))
    assert read(messages).user_messages == (2, 6)


def test_a_frameworks_own_roles_are_read_like_the_wires() -> None:
    messages = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "I look."},
        {"role": "tool-call", "content": "Calling tools:\n[]"},
        {"role": "tool-response", "content": "Observation:\nr"},
    ]
    assert kinds(messages) == [("user", None), ("assistant", 0), ("call", 0), ("result", 0)]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "tool", "content": "r"}],
        [{"role": "user", "content": "u"}, {"role": "user", "content": "Observation:\nr"}],
    ],
)
def test_an_orphan_result_is_in_a_turn_without_an_answer(messages: list[Wire]) -> None:
    history = read(messages)
    assert (history.parts[-1].kind, history.parts[-1].turn, history.num_turns) == ("result", 0, 1)


def test_reading_a_beginning_gives_the_beginning_of_the_reading() -> None:
    messages = agent_run(4)
    whole = read(messages)
    for end, num_turns in whole.calls:
        begun = read(messages[:end])
        assert begun.parts == tuple(part for part in whole.parts if part.message < end)
        assert begun.num_turns == num_turns
        assert begun.calls == (*(before for before in whole.calls if before[0] < end), (end, num_turns))


def count(text: str) -> int:
    return len(text)


def overhead(**message: Any) -> int:
    return message_overhead_tokens(parse_messages([{"role": "assistant", **message}])[0], count)


def test_what_stands_beside_a_text_is_counted() -> None:
    bare = overhead(content="not counted here")
    assert overhead(content=None, name="12345") == bare + 5
    assert overhead(content=None, reasoning_content="123") == bare + 3
    assert overhead(content=None, audio={"id": "x"}) == bare
    called = overhead(content=None, tool_calls=[call("id", "name", "12345678")])
    assert called - overhead(content=None, tool_calls=[{"id": "id"}]) == len("name") + 8
    assert overhead(content=[{"type": "text", "text": "x"}]) == bare
    assert overhead(content=[{"type": "refusal", "text": "1234"}]) == bare + 4
    assert overhead(content=[{"type": "file", "file": {"data": "A" * 10_000}}]) < 2_000


def test_tools_are_counted_as_json() -> None:
    assert tools_tokens((), count) == 0
    tool = {"type": "function", "function": {"name": "f", "x": 1}}
    one, two = (tools_tokens(parse_tools([tool] * number), count) for number in (1, 2))
    assert two - one > len(as_written(tool))


def test_what_json_cannot_write_has_a_form_too() -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    assert as_written(loop) == as_written({(1, 2): 3}) == "<class 'dict'>"
    assert as_written({"a": {1, 2} - {2}}) == '{"a": "{1}"}'
    assert as_written("é\ud800") == "é\ud800"
