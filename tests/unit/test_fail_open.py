"""Routing goes on when what it leans on fails, and cuts leave no half numbers."""

from __future__ import annotations

import re

import pytest

from asymspec_agents import ChatRequest, ContextRouter, ViewPolicy
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.store import MemoryStore
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.trace import MemoryRecorder

LOG = "\n".join(f"row {number} of many rows" for number in range(2_000))
MESSAGES = [
    {"role": "user", "content": "Which row?"},
    {"role": "assistant", "content": "I look."},
    {"role": "tool", "content": LOG},
]


class FullStore(MemoryStore):
    def put(self, content: str | bytes) -> str:
        raise OSError("disk full")


def test_a_failing_store_costs_no_call() -> None:
    recorder = MemoryRecorder()
    routed = ContextRouter(store=FullStore(), recorder=recorder).route(MESSAGES)
    assert routed.edits
    assert any(event.event == "store_failed" for event in recorder.events)


@pytest.mark.parametrize("counted", ["x", -5, float("nan"), True, None])
def test_a_prompt_counter_that_talks_nonsense_counts_as_failing(counted: object) -> None:
    policy = ViewPolicy(max_verifier_tokens=1_500)
    wanted = ContextRouter(policy).route(MESSAGES)
    got = ContextRouter(policy, prompt_counter=lambda messages, tools: counted).route(MESSAGES)
    assert got == wanted


@pytest.mark.parametrize("seconds", [1e10, float("inf"), 0, -1])
def test_time_limits_no_clock_can_keep_are_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="compress_timeout_s"):
        ViewPolicy(compress_timeout_s=seconds)


@pytest.mark.parametrize("separator", [",", ";", "，", "円", "|"])
@pytest.mark.parametrize("form", ["{}", "{}.25", "-{}"])
def test_cuts_leave_numbers_whole(separator: str, form: str) -> None:
    numbers = [form.format(10**9 + n * 7919) for n in range(5_000)]
    text = separator.join(numbers)
    made = HeadTail().compress(text, query="", target_tokens=200, counter=EstimateCounter()).text
    head, _, tail = re.split(r"(\[….*?…\])", made, flags=re.DOTALL)
    shown = [part.strip() for part in (*head.split(separator), *tail.split(separator)) if part.strip()]
    assert len(shown) > 4
    assert set(shown) <= set(numbers)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("asymspec", 5), ("response_format", "json"), ("tool_choice", 5), ("request_id", 5),
        ("cache_salt", 5), ("extra", None), ("chat_template_kwargs", None), ("stop", None), ("stop", 5),
    ],
)  # fmt: skip
def test_a_request_names_the_field_of_a_wrong_type(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=field):
        ChatRequest(messages=MESSAGES, **{field: value})


def test_a_requests_asymspec_object_may_be_a_wire_dict() -> None:
    request = ChatRequest(messages=MESSAGES, asymspec={"edits": [{"message": 0, "text": "?"}]})
    assert request.asymspec is not None
    assert request.asymspec.compressed_messages(request.messages)[0].content == "?"
