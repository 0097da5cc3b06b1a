"""A trace told: calls with their views, runs by task, stages; two traces paired turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.trace import JSONLRecorder, MemoryRecorder, measure
from asymspec_agents.trace.comparing import compare
from asymspec_agents.trace.story import Story, read_story, remarks, tell
from asymspec_agents.trace.viewer.messages import checked_messages


class Clock:
    """Seconds that pass one by one."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


def record_call(
    recorder: Any, name: str, answer: str = "yes", *, arm: str = "asymspec", task: str = "t"
) -> None:
    """A call of two blocks whose router knew its request."""
    recorder.record(
        "view", request_id=name, full_tokens=90, compressed_tokens=30, elapsed_s=0.5, task_digest=task
    )
    tokens = {"verifier": 31, "base": 31, "drafter": 91}
    recorder.record(
        "request", request_id=name, arm=arm, prompt_tokens=tokens, cached_tokens={"drafter": 50}, queue_s=0.25
    )
    for index, letter in enumerate(answer):
        recorder.record(
            "block",
            request_id=name,
            index=index,
            num_drafted=3,
            num_accepted=0,
            num_fused=1,
            token_ids=[ord(letter)],
            text=letter,
            divergence=[0.1],
        )
    recorder.record(
        "response",
        request_id=name,
        finish_reason="stop",
        num_tokens=len(answer),
        elapsed_s=3.0,
        prefill_s=2.0,
        text=answer,
    )


def story_of(*calls: dict[str, Any]) -> Story:
    recorder = MemoryRecorder(captures_content=True)
    for number, call in enumerate(calls):
        record_call(recorder, f"r{number}", **call)
    return tell(recorder.events)


def test_a_call_tells_what_was_read_and_where_the_time_went() -> None:
    story = story_of({})
    (call,) = story.calls
    assert (call.full_tokens, call.compressed_tokens) == (91, 31)
    assert call.computed_tokens is not None
    assert (call.computed_tokens.drafter, call.computed_tokens.verifier) == (41, 31)
    assert call.latency.known() == {"compress": 0.5, "queue": 0.25, "prefill": 2.0, "decode": 1.0}
    assert (call.answer, call.ending) == ("yes", "stop")
    assert [position.origin for position in call.positions()] == ["fused"] * 3
    assert call.num_changed is None


def test_the_total_is_that_of_all_events() -> None:
    recorder = MemoryRecorder()
    record_call(recorder, "r1")
    recorder.record("view", full_tokens=7)
    recorder.record("error", request_id="r2", error_type="BackendError")
    assert tell(recorder.events).total == measure(recorder.events)


def test_runs_are_tasks_by_arms() -> None:
    story = story_of({}, {"task": "other"}, {}, {"arm": "floor"})
    assert [(run.task_digest, run.arm, [call.number for call in run.calls]) for run in story.runs] == [
        ("t", "asymspec", [1, 3]),
        ("other", "asymspec", [2]),
        ("t", "floor", [4]),
    ]
    assert [call.number for call in story.calls] == [1, 2, 3, 4]


def test_a_view_of_no_request_belongs_to_the_next_one() -> None:
    recorder = MemoryRecorder()
    for name in ("r1", "r2"):
        recorder.record("view", full_tokens=len(name), task_digest=name)
        recorder.record("request", request_id=name)
    recorder.record("view", full_tokens=5)
    story = tell(recorder.events)
    digests = [call.view.task_digest if call.view is not None else None for call in story.calls]
    assert digests == ["r1", "r2", None]
    assert story.calls[2].request is None


def test_a_clients_and_its_servers_trace_make_one_story(tmp_path: Path) -> None:
    clock = Clock()
    with (
        JSONLRecorder(tmp_path / "server", clock=clock) as server,
        JSONLRecorder(tmp_path / "client", clock=clock) as client,
    ):
        for name in ("r1", "r2"):
            client.record("view", request_id=name, full_tokens=8, task_digest="t")
            server.record("request", request_id=name, arm="asymspec")
            server.record("response", request_id=name, num_tokens=1)
    story = read_story(tmp_path / "server", tmp_path / "client")
    assert [(call.request_id, call.full_tokens, call.ending) for call in story.calls] == [
        ("r1", 8, None),
        ("r2", 8, None),
    ]
    assert len(story.runs) == 1


def test_what_went_wrong_is_remarked() -> None:
    recorder = MemoryRecorder()
    recorder.record("compress", request_id="r", compressor="log", reason="timeout", fallback="headtail")
    recorder.record("route_failed", request_id="r", error="KeyError")
    recorder.record("compress_progress", request_id="r")
    recorder.record("rate", request_id="r")
    (call,) = tell(recorder.events).calls
    assert remarks(call) == ["compressor log failed (timeout); headtail instead", "route failed", "rate"]


def test_answers_are_compared_up_to_where_they_part() -> None:
    left = story_of({"answer": "the disk"}, {"answer": "same"}, {"answer": "more"})
    right = story_of({"answer": "the mail", "arm": "floor"}, {"answer": "same", "arm": "floor"})
    pairs = compare(left, right)
    assert [(pair.is_same, pair.common_chars, pair.common_tokens) for pair in pairs] == [
        (False, 4, 4),
        (True, 4, 4),
        (None, None, None),
    ]
    assert pairs[2].right is None
    assert [pair.is_same for pair in compare(left, left)] == [True] * 3


def test_runs_are_compared_by_task_not_by_order() -> None:
    left = story_of({"task": "a", "answer": "a"}, {"task": "b", "answer": "b"})
    right = story_of({"task": "b", "answer": "b"}, {"task": "c", "answer": "c"}, {"task": "a", "answer": "a"})
    pairs = compare(left, right)
    assert [pair.is_same for pair in pairs] == [True, True, None]
    assert pairs[2].left is None


@pytest.mark.parametrize(
    "parts", [None, 5, "text", [1, None], [{"digest": 5, "tokens": "many", "cut": 3, "degraded": "yes"}]]
)
def test_messages_of_any_form_are_made_harmless(parts: Any) -> None:
    given = [{"parts": parts, "calls": {"name": 1}, "result_of": [0, True], "turn": -1, "role": ["x"]}]
    (message,) = checked_messages(given)
    assert message.keys() == {"role", "parts"}
    assert all(part == {} or part == {"cut": {}} for part in message["parts"])


def test_a_result_of_no_call_is_no_result() -> None:
    calls = [{"name": "search", "digest": "d"}]
    messages = [
        {"role": "assistant", "calls": calls},
        *({"role": "tool", "result_of": at} for at in ([0, 0], [0, 1], [9, 0])),
    ]
    assert [message.get("result_of") for message in checked_messages(messages)] == [None, [0, 0], None, None]
