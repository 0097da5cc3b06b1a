"""What becomes of a request's images: seen, replaced by a text, or refused; and what the report says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, CompletionRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.errors import (
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    UnsupportedRequestError,
)
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest
from asymspec_agents.trace import MemoryRecorder, RequestEvent
from tests.engine.tiny_folder import WEATHER, random_backend

from .images import captioned, data_url, encoded, image_part, noise, text_part
from .pairs import CHAT, ask, backend_of, seeing_pair

URL = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
SEEN = {"role": "user", "content": [image_part(noise(1)), text_part("What is it?")]}
OTHER = {"role": "user", "content": [image_part(noise(99)), text_part("What is it?")]}


def seeing() -> LocalBackend:
    return seeing_pair("qwen3_vl").backend


def answer(backend: LocalBackend, request: ChatRequest) -> Any:
    response = backend.generate(request)
    assert response.report is not None
    return response.report


def test_captions_stay_fixed_images_change_the_drafter_alone() -> None:
    requests = [seeing()._decode_request(ask((message,)), None) for message in (SEEN, OTHER)]
    one, other = requests
    assert one.full == other.full
    assert one.compressed == other.compressed
    assert one.drafter_compressed == other.drafter_compressed
    assert one.drafter_full != other.drafter_full
    assert all(token >= 0 for token in one.drafter_compressed or ())
    # So b and t are the same; a is not (tests/vision/test_reading.py) and neither is what is decoded.
    reports = [answer(seeing(), ask((message,))) for message in (SEEN, OTHER)]
    assert reports[0].mean_divergence != reports[1].mean_divergence


def test_an_image_makes_the_views_different() -> None:
    """Without an edit the verifier reads a placeholder where the drafter sees the image."""
    report = answer(seeing(), ask((SEEN,), edits=()))
    assert (report.mode, report.fallback, report.images) == ("asymspec", None, 1)
    text = {"role": "user", "content": "What is it?"}
    report = answer(seeing(), ask((text,), edits=()))
    assert (report.mode, report.fallback, report.images) == ("strict", "identical_views", 0)


def test_four_drafts_a_block_unless_the_request_says_how_many() -> None:
    text = {"role": "user", "content": "What is it?"}
    edits = [{"message": 0, "text": "What?"}]
    for request, wanted in (
        (ask((SEEN,)), 5),
        (ask((SEEN,), options={"num_draft_tokens": 2}), 3),
        (ask((SEEN,), options={"bonus": "verifier"}), 4),
        (ask((text,), edits=edits), 3),
    ):
        report = answer(seeing(), request)
        assert report.drafted == wanted * report.blocks
        assert len(report.accepted_per_position) == wanted


def test_the_options_for_images_are_named() -> None:
    assert AsymSpecOptions.for_images().num_draft_tokens == 4
    assert AsymSpecOptions.for_images(num_draft_tokens=3, beta=2.0).num_draft_tokens == 3
    assert AsymSpecRequest.for_images(edits=()).wire() == {"version": 1, "num_draft_tokens": 4, "edits": []}
    kept = AsymSpecOptions(num_draft_tokens=2)
    assert kept.with_images() is kept
    assert AsymSpecOptions.paper().with_images().num_draft_tokens == 4


def test_a_drafter_without_vision_reads_the_text() -> None:
    backend = random_backend()
    report = answer(backend, ask(CHAT))
    assert (report.images, report.fallback) == (0, "images_as_text, identical_views")
    edits = [*captioned(CHAT), {"message": 4, "text": "?"}]
    report = answer(backend, ask(CHAT, edits=edits))
    assert (report.mode, report.images, report.fallback) == ("asymspec", 0, "images_as_text")
    full = backend._decode_request(ask(CHAT, edits=edits), None).full
    assert backend.template.tokenizer.decode(full).count("A picture.") == 3


def test_whole_messages_stand_for_images_without_a_place() -> None:
    asymspec = AsymSpecRequest.of(
        messages=parse_messages([{"role": "user", "content": "A cat. What is it?"}])
    )
    request = ChatRequest(messages=(SEEN,), asymspec=asymspec, max_tokens=4)  # type: ignore[arg-type]
    report = answer(random_backend(), request)
    assert (report.mode, report.images, report.fallback) == ("asymspec", 0, "images_without_text")
    report = answer(seeing(), request)
    assert (report.mode, report.images, report.fallback) == ("asymspec", 1, None)


@pytest.mark.parametrize("blind", [True, False])
def test_an_image_that_nobody_sees_is_refused_unless_a_text_stands_for_it(blind: bool) -> None:
    backend = random_backend() if blind else seeing()
    part = image_part(noise(1)) if blind else URL
    message = {"role": "user", "content": [text_part("Look: "), part]}
    why = (
        "no model here reads images" if blind else "it is a URL, and URLs are not fetched; send the image as"
    )
    with pytest.raises(
        UnsupportedRequestError, match=rf"^messages\[0\].content\[1\]: nobody sees this image \({why}"
    ):
        backend.generate(ask((message,), edits=()))
    report = answer(backend, ask((message,), edits=[{"message": 0, "part": 1, "text": "a cat"}]))
    assert "images_as_text" in str(report.fallback)
    assert report.images == 0


def test_an_image_and_a_url_side_by_side() -> None:
    message = {"role": "user", "content": [image_part(noise(1)), URL]}
    report = answer(seeing(), ask((message,)))
    assert (report.images, report.fallback) == (1, "images_as_text")


@pytest.mark.parametrize("messages", [CHAT, (SEEN,), ({"role": "user", "content": [{"type": "image"}]},)])
def test_a_plain_request_has_no_images(messages: Sequence[Mapping[str, Any]]) -> None:
    for backend in (random_backend(), seeing()):
        with pytest.raises(
            UnsupportedRequestError, match=r"^messages\[\d\].content\[\d\]: nobody sees this image"
        ):
            backend.generate(ChatRequest(messages=tuple(messages), max_tokens=4))  # type: ignore[arg-type]


def test_the_drafter_alone_sees_them_in_a_plain_request() -> None:
    drafter = seeing().with_arm("drafter")
    assert drafter.capabilities.sees_images
    texts = {
        drafter.generate(
            ChatRequest(
                messages=({"role": "user", "content": [image_part(noise(seed)), text_part("What?")]},),  # type: ignore[arg-type]
                max_tokens=12,
            )
        ).content
        for seed in (1, 2, 3)
    }
    assert len(texts) > 1


FORMS = {
    "chat": {"type": "image_url", "image_url": {"url": data_url(encoded(noise(1)))}},
    "plain url": {"type": "image_url", "image_url": data_url(encoded(noise(1)))},
    "responses": {"type": "input_image", "image_url": data_url(encoded(noise(1)))},
    "anthropic": {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": data_url(encoded(noise(1))).split(",")[1],
        },
    },
    "langchain": {
        "type": "image",
        "base64": data_url(encoded(noise(1))).split(",")[1],
        "mime_type": "image/png",
    },
    "file": {"type": "file", "file": {"filename": "a.png", "file_data": data_url(encoded(noise(1)))}},
}


@pytest.mark.parametrize("form", FORMS)
def test_images_are_seen_in_every_form_in_which_clients_send_them(form: str) -> None:
    requests = [
        ask(({"role": "user", "content": [part, text_part("What is it?")]},), edits=())
        for part in (FORMS["chat"], FORMS[form])
    ]
    one, other = (seeing()._decode_request(request, None) for request in requests)
    assert one.drafter_full == other.drafter_full
    assert other.sight is not None


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (image_part(b"no picture"), "the data are no image of a format that is read"),
        (image_part(encoded(noise(1), "TIFF")), "the data are no image of a format that is read"),
        (image_part(encoded(noise(1, 64, 64))[:3_000]), "the image is broken or cut short"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,@@"}}, "it.*not valid base64"),
        ({"type": "image_url", "image_url": {}}, "it has neither data nor a URL"),
    ],
    ids=["text", "tiff", "cut", "base64", "empty"],
)
def test_images_that_cannot_be_read_are_named(part: Mapping[str, Any], why: str) -> None:
    message = {"role": "user", "content": [text_part("a"), part]}
    with pytest.raises(MessageError, match=rf"^messages\[0\].content\[1\]: .*{why}"):
        seeing().generate(ask((message,)))


def test_limits_of_a_request() -> None:
    limits = VisionOptions(max_images=2, max_image_pixels=400, max_image_bytes=5_000)
    backend = backend_of("qwen2_vl", EngineOptions(vision=limits))
    assert (
        answer(backend, ask(({"role": "user", "content": [image_part(noise(n)) for n in (1, 2, 1)]},))).images
        == 3
    )
    with pytest.raises(ConfigurationError, match=r"3 different images, over the limit of max_images=2"):
        backend.generate(ask(({"role": "user", "content": [image_part(noise(n)) for n in (1, 2, 3)]},)))
    with pytest.raises(MessageError, match=r"has 30×20 pixels, over the limit of max_image_pixels=400"):
        backend.generate(ask(({"role": "user", "content": [image_part(noise(1, 30, 20))]},)))
    with pytest.raises(MessageError, match=r"the image cannot be read: it is larger than 5,000 bytes"):
        backend.generate(ask(({"role": "user", "content": [image_part(noise(1, 60, 60))]},)))
    assert answer(backend, ask((SEEN,))).images == 1


def test_the_drafters_view_is_measured_with_its_images() -> None:
    backend = backend_of("qwen2_vl", EngineOptions(max_drafter_tokens=100))
    messages = ({"role": "user", "content": [image_part(noise(n, 48, 48)) for n in range(4)]},)
    counted = backend.count_prompt(parse_messages(messages))
    with pytest.raises(ContextOverflowError, match=rf"^the full view has {counted} tokens") as refused:
        backend.generate(ask(messages))
    assert refused.value.view == "full"
    report = answer(backend, ask(messages, options={"on_unsupported": "verifier"}))
    assert (report.mode, report.fallback, report.images) == ("floor", "full_view_overflow", 0)
    assert counted == len(backend._decode_request(ask(messages), None).drafter_full or ())
    ids = backend.prompt_ids(ChatRequest(messages=messages))  # type: ignore[arg-type]
    assert len(ids) == counted
    assert min(ids) >= 0


def test_tools_and_grammars_work_beside_images() -> None:
    schema = {"enum": ["cat", "dog"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}
    request = ask((SEEN,), tools=(WEATHER,), response_format=wanted, max_tokens=200)
    response = seeing().generate(request)
    assert response.report is not None
    assert response.report.images == 1
    assert json.loads(response.content) in ("cat", "dog")
    drafted = [token for token in seeing()._decode_request(request, None).drafter_full or () if token >= 0]
    assert "Weather of a city." in seeing().template.tokenizer.decode(drafted)


def test_a_completion_has_no_images() -> None:
    request = CompletionRequest(prompt="Hello there", asymspec={"prompt": "Hello"}, max_tokens=4)  # type: ignore[arg-type]
    response = seeing().generate(request)
    assert response.report is not None
    assert response.report.images == 0


def test_what_a_pair_says_of_itself() -> None:
    assert seeing().capabilities.sees_images
    assert not random_backend().capabilities.sees_images
    for arm in ("floor", "ceiling", "symmetric_full", "rapid"):
        assert not seeing().with_arm(arm).capabilities.sees_images
    limit = seeing().capabilities.max_drafter_tokens
    assert limit is not None
    assert limit == 4_096 - 5  # room for a block of five places


def test_what_is_drafted_is_recorded() -> None:
    recorder = MemoryRecorder()
    backend_of("qwen2_vl", recorder=recorder).generate(ask((SEEN,)))
    event = next(event for event in recorder.events if isinstance(event, RequestEvent))
    assert event.num_draft_tokens == 4
