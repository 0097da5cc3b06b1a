"""Whole-message views and adaptive ratios through the smolagents models."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from smolagents.models import ChatMessage, MessageRole

from asymspec_agents.backends.scripted import ScriptedBackend, scripted_response
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.router import ContextRouter
from asymspec_agents.summary import HistorySummary, SummaryCompressor, SummaryRouter
from asymspec_agents.trace import MemoryRecorder
from asymspec_agents.views import RateControl, ViewPolicy
from smolagents_asymspec import AsymSpecModel, RoutedModel

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words}]}


def run(num_turns: int, task: str = "Find the train.") -> list[Any]:
    """What smolagents sends: calls as texts, observations as user messages."""
    messages: list[Any] = [text("system", "You are an agent."), text("user", task)]
    for turn in range(num_turns):
        messages.append(text("assistant", f"Calling tools:\n[search {turn}]"))
        line = f"row {turn}: a train leaves at {turn:02d}:15, platform {turn % 7}\n"
        messages.append(text("user", "Observation:\n" + line * 25))
    return messages


def summary_router() -> SummaryRouter:
    summarizer = SummaryCompressor(ScriptedBackend(lambda request: "Trains were found."), timeout_s=None)
    history = HistorySummary(keep_last=2, high_water_tokens=800, summary_tokens=200)
    return SummaryRouter(summarizer, history)


def test_asymspec_model_sends_whole_messages_beside_the_full_view() -> None:
    backend = ScriptedBackend(["Done."])
    AsymSpecModel(backend, summary_router()).generate(run(12))
    (request,) = backend.requests
    assert len(request.messages) == 26
    asymspec = request.asymspec
    assert asymspec.edits is None
    view = asymspec.compressed_messages(request.messages)
    roles = [message.role for message in view]
    assert roles[:3] == ["system", "user", "assistant"]
    assert all(one != other for one, other in pairwise(roles))
    assert "Trains were found." in view[1].content
    assert view[1].content.endswith("Find the train.")
    assert view[-1] == request.messages[-1]
    assert len(view) < 20


class Inner:
    """A model that keeps what it was given."""

    model_id = "inner"

    def generate(self, messages: list[Any], **kwargs: Any) -> ChatMessage:
        self.messages = messages
        return ChatMessage(role=MessageRole.ASSISTANT, content="Done.")


@pytest.mark.parametrize("content", ["words", "words and an image"])
def test_routed_model_gives_the_same_view_with_the_callers_own_images(content: str) -> None:
    inner = Inner()
    messages = run(12)
    if content == "words and an image":
        messages[1]["content"].append(IMAGE)
    RoutedModel(inner, summary_router()).generate(messages)
    given = inner.messages
    assert len(given) < 20
    assert given[0] is messages[0]
    assert given[-1] is messages[-1]
    first = given[1]["content"]
    words = "".join(part["text"] for part in first if part["type"] == "text")
    assert "Trains were found." in words
    assert "Find the train." in words
    assert [part for part in first if part["type"] != "text"] == messages[1]["content"][1:]


def adaptive(divergences: list[float]) -> tuple[AsymSpecModel, ScriptedBackend, MemoryRecorder]:
    replies = [
        scripted_response("Go on.", report=AsymSpecReport(mean_divergence=d, drafted=10, accepted=9))
        for d in divergences
    ]
    backend, recorder = ScriptedBackend(replies), MemoryRecorder()
    control = RateControl(min_answers=1, smoothing=1.0)
    router = ContextRouter(ViewPolicy(compress_timeout_s=None))
    return AsymSpecModel(backend, router, rate=control, recorder=recorder), backend, recorder


def edits_of(request: Any) -> dict[int, str]:
    return {edit.message: edit.text for edit in request.asymspec.edits}


def test_divergent_answers_make_later_turns_longer_and_leave_earlier_ones() -> None:
    model, backend, recorder = adaptive([0.5] * 10)
    for turn in range(1, 9):
        model.generate(run(turn))
    before: dict[int, str] = {}
    for request in backend.requests:
        now = edits_of(request)
        assert all(now[message] == shown for message, shown in before.items())
        before = now
    sizes = [len(shown) for _, shown in sorted(before.items())]
    assert sizes[-1] > 1.5 * sizes[0]
    moves = [event for event in recorder.events if event.event == "rate" and event.reason == "divergence"]
    assert [event.ratio for event in moves] == [0.45, 0.6]


def test_conversations_that_share_a_model_have_a_ratio_each() -> None:
    model, backend, _ = adaptive([0.5] * 3 + [0.05] * 6)
    for turn in range(1, 4):
        model.generate(run(turn))
    for turn in range(1, 7):
        model.generate(run(turn, "Find a hotel."))
    plain = ContextRouter(ViewPolicy(compress_timeout_s=None)).route(backend.requests[-1].messages)
    assert edits_of(backend.requests[-1]) == {edit.message: edit.text for edit in plain.edits}


def test_a_streamed_answer_is_read_too() -> None:
    model, _, recorder = adaptive([0.5])
    assert list(model.generate_stream(run(2)))
    assert [event.reason for event in recorder.events if event.event == "rate"] == ["divergence"]


def test_the_control_is_saved_and_must_fit_the_policy() -> None:
    model, backend, _ = adaptive([])
    saved = model.to_dict()
    loaded = AsymSpecModel.from_dict(saved, backend=backend)
    assert loaded.rates is not None
    assert loaded.rates.control == RateControl(min_answers=1, smoothing=1.0)
    with pytest.raises(ConfigurationError, match="policy's own"):
        AsymSpecModel(backend, ContextRouter(ViewPolicy(ratio=0.2)), rate=RateControl())
    with pytest.raises(ConfigurationError, match="RateControl"):
        AsymSpecModel(backend, rate=0.3)  # type: ignore[arg-type]
