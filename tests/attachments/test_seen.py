"""Which images the full view keeps for a drafter that sees: whole ones with their bytes, of known formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.messages import parse_messages
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


def read(part: dict[str, Any], sees: str, captioner: Says | None) -> tuple[str, str]:
    """What stands for the part in the full view and in what the compressed one is made of."""
    policy = AttachmentPolicy(drafter_sees=sees, max_pixels=2_000)  # type: ignore[arg-type]
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
    for name, limit in (("MAX_SEEN_PIXELS", 100), ("MAX_SEEN_BYTES", len(data))):
        monkeypatch.setattr(f"asymspec_agents.attachments.reading.{name}", limit)
        assert read(image_part(data), "images", None)[0] == "image_url"
        monkeypatch.setattr(f"asymspec_agents.attachments.reading.{name}", limit - 1)
        assert read(image_part(data), "images", None)[0] == "text"
        monkeypatch.undo()


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
