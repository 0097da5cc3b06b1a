"""Images of smolagents messages as wire parts: encoded once, and sent once per conversation.

smolagents attaches a run's images to the task and again to every step, and encodes each copy anew at each
call. Here an image is known by a hash of its pixels.
"""

from __future__ import annotations

import base64
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from asymspec_agents.attachments.notes import note
from asymspec_agents.errors import MessageError
from asymspec_agents.messages import ContentPart

__all__ = ["ConversationImages", "ImageEncoder", "readable"]

_CACHE_BYTES = 64 << 20


class ImageEncoder:
    """Encodes images as data URLs, remembering recent ones by content hash (64 MiB). Thread-safe."""

    def __init__(self, max_cached_bytes: int = _CACHE_BYTES) -> None:
        self._max_cached_bytes = max_cached_bytes
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._num_cached_bytes = 0
        self._lock = threading.Lock()
        self.num_encoded = 0

    def url(self, image: Any) -> str:
        """The image as a URL: pictures and bytes become data URLs, a URL or base64 text stays what it is."""
        if isinstance(image, str):
            return image if ":" in image[:16] else f"data:image/png;base64,{image}"
        if isinstance(image, bytes | bytearray):
            return _data_url(bytes(image))
        picture = image.to_raw() if hasattr(image, "to_raw") else image
        if not hasattr(picture, "save"):
            raise MessageError(f"an image cannot be a {type(image).__name__}")
        key = _pixel_hash(picture)
        with self._lock:
            if key in self._urls:
                self._urls.move_to_end(key)
                return self._urls[key]
        url = _data_url(_png(picture))
        with self._lock:
            self.num_encoded += 1
            if key not in self._urls:
                self._urls[key] = url
                self._num_cached_bytes += len(url)
            while self._num_cached_bytes > self._max_cached_bytes:
                self._num_cached_bytes -= len(self._urls.popitem(last=False)[1])
        return url


class ConversationImages:
    """The images of one call's messages: the first copy of each is sent, later ones are left out.

    With `repeats` they are not, so that every element has its part. A picture that cannot be read becomes a
    text that says so: one bad screenshot does not end a run.
    """

    def __init__(self, encoder: ImageEncoder, *, repeats: bool = False) -> None:
        self._encoder = encoder
        self._repeats = repeats
        self._urls: dict[int, str] = {}
        self._seen: set[str] = set()

    def parts(self, element: Mapping[str, Any]) -> tuple[ContentPart, ...]:
        """The wire part of an `image` or `image_url` element; none for an image that was sent before."""
        if element["type"] == "image":
            image = element.get("image")
            if id(image) not in self._urls:  # the caller's messages keep the image, so the id stays its own
                problem = _problem(image)
                if problem is not None:
                    return (ContentPart(type="text", text=note("image", None, problem)),)
                self._urls[id(image)] = self._encoder.url(image)
            part = ContentPart.model_validate(
                {"type": "image_url", "image_url": {"url": self._urls[id(image)]}}
            )
        else:
            part = ContentPart.model_validate(element)
        key = _url_of(part)
        if key is not None and not self._repeats:
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
            if digest in self._seen:
                return ()
            self._seen.add(digest)
        return (part,)


def readable(messages: Sequence[Any]) -> list[Any]:
    """The messages, with a text in place of each picture that cannot be read; others are the same objects."""
    given = []
    for message in messages:
        is_mapping = isinstance(message, Mapping)
        content = message.get("content") if is_mapping else getattr(message, "content", None)
        if isinstance(content, list):
            told = [_readable(element) for element in content]
            if any(new is not old for new, old in zip(told, content, strict=True)):
                message = {**message, "content": told} if is_mapping else replace(message, content=told)
        given.append(message)
    return given


def _readable(element: Any) -> Any:
    if isinstance(element, Mapping) and element.get("type") == "image":
        problem = _problem(element.get("image"))
        if problem is not None:
            return {"type": "text", "text": note("image", None, problem)}
    return element


def _problem(image: Any) -> str | None:
    """Why a picture cannot be read; None for one that can, and for what is no picture in memory."""
    try:
        picture = image.to_raw() if hasattr(image, "to_raw") else image
        if hasattr(picture, "load") and hasattr(picture, "size"):
            picture.load()
            return "it is empty" if 0 in picture.size else None
    except Exception as error:  # whatever a decoder raises
        return f"it is broken or closed ({type(error).__name__})"
    return None


def _url_of(part: ContentPart) -> str | None:
    image_url = (part.model_extra or {}).get("image_url")
    url = image_url.get("url") if isinstance(image_url, Mapping) else image_url
    return url if isinstance(url, str) else None


def _pixel_hash(picture: Any) -> str:
    digest = hashlib.sha256(f"{picture.mode}{picture.size}{picture.info.get('transparency')!r}".encode())
    palette = picture.getpalette() if picture.mode in ("P", "PA") else None
    digest.update(bytes(palette or ()))
    digest.update(picture.tobytes())
    return digest.hexdigest()


def _png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        picture.save(buffer, format="PNG")
    except OSError:  # a mode PNG does not have, such as CMYK
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()


def _data_url(data: bytes) -> str:
    kinds = {b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    kind = next((kind for magic, kind in kinds.items() if data.startswith(magic)), "png")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
