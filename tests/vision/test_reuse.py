"""The tower runs once for an image, and what the drafter has read of it is found again by its content."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from PIL import Image

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine import view
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.vision.model import SeeingModel
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.engine.vision.remembered import Remembered
from asymspec_agents.errors import RequestAbortedError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.trace import MemoryRecorder, ResponseEvent

from .images import image_part, noise, text_part
from .pairs import ask, backend_of


def turn(*images: Image.Image, text: str = "What is it?") -> dict[str, Any]:
    return {"role": "user", "content": [*map(image_part, images), text_part(text)]}


ANSWER = {"role": "assistant", "content": "A log."}


class Watched:
    """A pair of its own, and what each of its calls cost the drafter."""

    def __init__(self, family: str, options: EngineOptions | None = None) -> None:
        self.recorder = MemoryRecorder()
        self.backend: LocalBackend = backend_of(family, options, self.recorder)
        model = self.backend.engine.models["drafter"]
        assert isinstance(model, SeeingModel)
        self.drafter = model
        self.last = 0

    def ask(self, *messages: Mapping[str, Any], **fields: Any) -> tuple[AsymSpecReport, int, str]:
        """The report, how often the tower ran, and the text."""
        before = self.drafter.num_seen
        answer = self.backend.generate(ask(messages, max_tokens=6, **fields))
        assert answer.report is not None
        return answer.report, self.drafter.num_seen - before, answer.content

    @property
    def num_read(self) -> int:
        """Tokens the drafter read of its full view in the last call."""
        event = [event for event in self.recorder.events if isinstance(event, ResponseEvent)][-1]
        return event.forwarded_tokens.drafter


@pytest.mark.parametrize("family", ["qwen2_vl", "smolvlm"])
def test_the_cost_of_a_turn_is_its_new_tokens(family: str) -> None:
    watched = Watched(family)
    first, num_towers, _ = watched.ask(turn(noise(1), noise(2)))
    assert (first.images, num_towers, first.cached_tokens.drafter) == (2, 2, 0)
    again, num_towers, _ = watched.ask(turn(noise(1), noise(2)), ANSWER, {"role": "user", "content": "So?"})
    assert (again.images, num_towers) == (2, 0)
    # All but what the template writes for an answer is found again, the images with it.
    assert again.cached_tokens.drafter >= first.drafter_prompt_tokens - 20
    num_new = again.drafter_prompt_tokens - again.cached_tokens.drafter
    assert watched.num_read <= num_new + 5 * again.blocks
    more, num_towers, _ = watched.ask(
        turn(noise(1), noise(2)), ANSWER, {"role": "user", "content": "So?"}, ANSWER, turn(noise(4))
    )
    assert (more.images, num_towers) == (3, 1)
    assert more.cached_tokens.drafter >= again.drafter_prompt_tokens - 20


def test_the_cached_answer_is_the_uncached_one() -> None:
    messages = (turn(noise(1), noise(2)), ANSWER, turn(noise(4)))
    alone = Watched("qwen3_vl").ask(*messages)[2]
    watched = Watched("qwen3_vl")
    watched.ask(*messages[:1])
    report, _, text = watched.ask(*messages)
    assert report.cached_tokens.drafter > 0
    assert text == alone


def test_another_image_in_the_same_place_is_no_hit() -> None:
    watched = Watched("qwen2_vl")
    first, _, _ = watched.ask(turn(noise(1)))
    other, num_towers, _ = watched.ask(turn(noise(9)))
    assert num_towers == 1
    assert first.drafter_prompt_tokens == other.drafter_prompt_tokens
    image_start = 12
    assert other.cached_tokens.drafter <= image_start
    same, num_towers, _ = watched.ask(turn(noise(1)))
    assert num_towers == 0
    assert same.cached_tokens.drafter == first.drafter_prompt_tokens - 1


def test_an_image_in_another_place_is_read_there_without_the_tower() -> None:
    watched = Watched("qwen2_vl")
    watched.ask(turn(noise(1)))
    moved, num_towers, _ = watched.ask({"role": "user", "content": "First."}, turn(noise(1)))
    assert num_towers == 0
    assert moved.cached_tokens.drafter < 20


def test_an_image_that_stands_twice_is_seen_once() -> None:
    watched = Watched("idefics3")
    report, num_towers, _ = watched.ask(turn(noise(1), noise(1)), ANSWER, turn(noise(1)))
    assert (report.images, num_towers) == (3, 1)


def test_without_a_cache_each_request_sees_its_images_once() -> None:
    options = EngineOptions(prefix_cache_bytes=0, vision=VisionOptions(cache_bytes=0))
    watched, plain = Watched("qwen3_vl", options), Watched("qwen3_vl")
    for _ in range(2):
        report, num_towers, text = watched.ask(turn(noise(1), noise(2)))
        assert (num_towers, report.cached_tokens.drafter) == (2, 0)
        assert text == plain.ask(turn(noise(1), noise(2)))[2]
    assert watched.drafter._features.num_bytes == 0


@pytest.mark.parametrize("family", ["qwen3_vl", "smolvlm"])
def test_an_image_that_is_read_in_several_pieces_is_seen_once(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Watched(family).ask(turn(noise(1), noise(2), noise(1)))[2]
    monkeypatch.setattr(view, "PREFILL_CHUNK", 5)
    watched = Watched(family, EngineOptions(vision=VisionOptions(cache_bytes=0)))
    _, num_towers, text = watched.ask(turn(noise(1), noise(2), noise(1)))
    assert num_towers == 3  # nothing is remembered beyond the image that is just being read
    assert text == wanted


def test_an_interrupted_reading_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it ended between the rows of an image."""
    monkeypatch.setattr(view, "PREFILL_CHUNK", 7)
    watched = Watched("qwen2_vl")
    wanted = Watched("qwen2_vl").ask(turn(noise(1, 48, 48)))[2]
    request = watched.backend._decode_request(ask((turn(noise(1, 48, 48)),), max_tokens=6), None)
    abort, calls = threading.Event(), 0
    forward = watched.drafter._hidden

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:  # 28 tokens in: the image begins behind the 12th and has 36 rows
            abort.set()
        return forward(*arguments)

    monkeypatch.setattr(watched.drafter, "_hidden", counted)
    with pytest.raises(RequestAbortedError):
        list(watched.backend.engine.decode(request, abort=abort))
    monkeypatch.undo()
    report, num_towers, text = watched.ask(turn(noise(1, 48, 48)))
    assert (report.cached_tokens.drafter, num_towers) == (28, 0)
    assert text == wanted


def test_tenants_share_no_cache() -> None:
    watched = Watched("qwen2_vl")
    watched.ask(turn(noise(1)), cache_salt="a")
    assert watched.ask(turn(noise(1)), cache_salt="b")[0].cached_tokens.drafter == 0
    assert watched.ask(turn(noise(1)), cache_salt="a")[0].cached_tokens.drafter > 0


def test_the_base_pass_and_the_verifier_begin_as_the_drafter_does() -> None:
    """What stands before the first image is read once for both of the drafter's views."""
    watched = Watched("smolvlm")
    watched.ask({"role": "system", "content": "A long system prompt. " * 5}, turn(noise(1)))
    event = [event for event in watched.recorder.events if isinstance(event, ResponseEvent)][-1]
    assert event.forwarded_tokens.base < event.forwarded_tokens.verifier - 100


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    kept: Remembered[str] = Remembered(10)
    for name in "abc":
        kept.put(name, name.upper(), 4)
    assert [kept.get(name) for name in "abc"] == [None, "B", "C"]
    kept.get("b")
    kept.put("d", "D", 4)
    assert [kept.get(name) for name in "bcd"] == ["B", None, "D"]
    kept.put("e", "E", 11)
    assert kept.get("e") is None
    kept.put("b", "B2", 6)
    assert kept.num_bytes == 10
    assert kept.take("b") == "B2"
    assert kept.take("b") is None
    assert kept.num_bytes == 4
