"""Small pictures made by the tests, and messages that show them."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["captioned", "data_url", "encoded", "image_part", "noise", "text_part"]


@functools.cache
def noise(seed: int, width: int = 24, height: int = 16) -> Image.Image:
    """A picture of random pixels: no two of them look alike to a random tower."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The picture's file."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """The file as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image_part(picture: Image.Image | bytes) -> dict[str, Any]:
    """A part of a message that shows the picture."""
    data = picture if isinstance(picture, bytes) else encoded(picture)
    return {"type": "image_url", "image_url": {"url": data_url(data)}}


def text_part(text: str) -> dict[str, str]:
    """A part of a message that says the text."""
    return {"type": "text", "text": text}


def captioned(messages: Sequence[Mapping[str, Any]], caption: str = "A picture.") -> list[dict[str, Any]]:
    """An edit for each image of the messages that puts the caption there."""
    return [
        {"message": index, "part": number, "text": caption}
        for index, message in enumerate(messages)
        for number, part in enumerate(message["content"] if isinstance(message["content"], list) else ())
        if part["type"] != "text"
    ]
