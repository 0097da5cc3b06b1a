"""Which images the full view keeps for a drafter that sees: whole ones with their bytes, of known formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.messages import parse_messages
from asymspec_agents.router import ContextRouter
from asymspec_agents.store import MemoryStore
from tests.attachments.files import image, image_part

URL = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
CASES = [
    ("PNG", image_part(image("PNG")), True),
    ("JPEG", image_part(image("JPEG")), True),
    ("GIF", image_part(image("GIF")), True),
    ("WebP", image_part(image("WEBP")), True),
    ("BMP", image_part(image("BMP")), True),
    ("TIFF", image_part(image("TIFF")), False),
    ("ICO", image_part(image("ICO", (32, 32))), False),
    ("SVG", image_part(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'), False),
    ("cut short", image_part(image("PNG")[:-60]), False),
    ("header only", image_part(image("PNG")[:33]), False),
    ("too large", image_part(image("PNG", (60, 60))), False),
    ("a line", image_part(image("PNG", (201, 1))), False),
    ("a ruler", image_part(image("PNG", (1, 200))), True),
    ("a URL", URL, False),
    ("a file", {"type": "file", "file": {"file_data": image_part(image())["image_url"]["url"]}}, True),
]


class Says:
    """A captioner."""

    configuration = "says/1"

    def describe(self, png: bytes) -> str:
        return "a lighthouse"


def read(part: dict[str, Any], sees: str, captioner: Says | None, **limits: int) -> tuple[str, str]:
    """What stands for the part in the full view and in what the compressed one is made of."""
    policy = AttachmentPolicy(drafter_sees=sees, max_pixels=2_000, **limits)  # type: ignore[arg-type]
    with Attachments(policy, captioner=captioner) as attachments:
        messages = parse_messages([{"role": "user", "content": [part]}])
        made = attachments.read(messages, MemoryStore())
    (full,), (short,) = (view[0].content for view in (made.full, made.shortened))
    assert not isinstance(full, str)
    assert not isinstance(short, str)
    assert short.type == "text"
    return full.type, short.text or ""


@pytest.mark.parametrize("captioner", [None, Says()], ids=["bare", "captioned"])
@pytest.mark.parametrize(("part", "is_kept"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_kept(part: dict[str, Any], is_kept: bool, captioner: Says | None) -> None:
    kind, text = read(part, "images", captioner)
    assert (kind == part["type"]) is is_kept
    assert text.startswith("[image")
    assert ("a lighthouse" in text) is (
        captioner is not None and (is_kept or any(kind in text for kind in ("TIFF", "ICO", "201×1")))
    )
    # For a drafter that does not see, all of them are texts: the same ones where images are whole.
    blind_kind, blind_text = read(part, "text", captioner)
    assert blind_kind == "text"
    if is_kept:
        assert blind_text == text


def test_what_is_larger_than_models_are_shown_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router reads larger images than the engine shows: kept, they would end in an error there."""
    data = image("PNG", (10, 10))
    for limit, kind in ((100, "image_url"), (99, "text")):
        assert read(image_part(data), "images", None, max_seen_pixels=limit)[0] == kind
    for limit, kind in ((len(data), "image_url"), (len(data) - 1, "text")):
        monkeypatch.setattr("asymspec_agents.attachments.reading.MAX_SEEN_BYTES", limit)
        assert read(image_part(data), "images", None)[0] == kind


PICTURES = [image("PNG", (9, 9 + at)) for at in range(9)]


def shown(attachments: Attachments, num_images: int) -> list[bool]:
    """Which of so many images, oldest first, stay images."""
    messages = [
        {"role": "user", "content": [image_part(data), {"type": "text", "text": "?"}]}
        for data in PICTURES[:num_images]
    ]
    made = attachments.read(parse_messages(messages), MemoryStore())
    kinds = [message.content[0].type == "image_url" for message in made.full]  # type: ignore[index,union-attr]
    assert all(message.content[0].type == "text" for message in made.shortened)  # type: ignore[index,union-attr]
    assert made.num_unseen == kinds.count(False)
    return kinds


@pytest.mark.parametrize("most", [0, 1, 3, 4])
def test_the_newest_images_are_seen_and_older_ones_become_text_several_at_a_time(most: int) -> None:
    """A run that takes one screenshot after the other goes on, and its prefix seldom changes."""
    with Attachments(AttachmentPolicy(drafter_sees="images", max_seen_images=most)) as attachments:
        kinds = [shown(attachments, num) for num in range(10)]
    at_once = max(most // 2, 1)
    for num, kept in enumerate(kinds):
        hidden = kept.count(False)
        assert kept == [False] * hidden + [True] * (num - hidden)
        assert min(num, most - at_once + 1) <= num - hidden <= most
    assert len({kept.count(False) for kept in kinds}) == -(-(9 - most) // at_once) + 1


def test_the_report_says_how_many_are_not_seen() -> None:
    messages = [{"role": "user", "content": [image_part(image("PNG", (9, 9 + at)))]} for at in range(3)]
    policy = AttachmentPolicy(drafter_sees="images", max_seen_images=2)
    with Attachments(policy) as attachments:
        report = ContextRouter(attachments=attachments).route(messages).report
    assert (report.num_images, report.num_unseen_images) == (3, 1)
    assert "1 of 3 images as text for the drafter" in report.lines()


def test_without_pillow_the_models_own_decoder_has_to_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process that converts takes this one's paths, where a package that is none stands first."""
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text("raise ImportError('not installed', name='PIL')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    kind, text = read(image_part(image()), "images", None)
    assert kind == "image_url"
    assert "not described: no captioner or text reader is set" in text
