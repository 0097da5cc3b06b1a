"""A chat with images as vLLM takes it: for the drafter with pictures, for whoever sees none with texts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.attachments.parts import IMAGE_TYPES
from asymspec_agents.backends.pictures import Place, images_of
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.engine.vision.picture import pixels
from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.messages import ContentPart, Message
from asymspec_agents.protocol import AsymSpecRequest

__all__ = ["SHOWN", "ImageLimits", "ViewsOfImages", "joined", "views_of_images"]

SHOWN = "image_pil"  # vLLM's type of a part with a picture that is decoded


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What a drafter that sees may be shown with one request; `control` are tokens that only images have."""

    options: VisionOptions
    control: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewsOfImages:
    """A chat for each who reads it.

    `shown`: the full view with the images that the drafter sees, None where there are none. `full`: the same
    with texts in their places; `compressed`: the verifier's view. `fallbacks` name what stands for images
    that the drafter does not see.
    """

    full: tuple[Message, ...]
    compressed: tuple[Message, ...]
    shown: tuple[Message, ...] | None = None
    fallbacks: tuple[str, ...] = ()


def views_of_images(
    messages: tuple[Message, ...], asymspec: AsymSpecRequest, limits: ImageLimits | None
) -> ViewsOfImages:
    """Both views of a chat; `limits` None: the drafter sees no images.

    Raises UnsupportedRequestError for an image that nobody sees and no text replaces, and for more images
    than `limits` allow; MessageError for one that can't be read or is too large.
    """
    max_bytes = None if limits is None else limits.options.max_image_bytes
    images = images_of(messages, asymspec, max_bytes=max_bytes)
    full, compressed = _named(images.texts), _named(asymspec.compressed_messages(messages))
    if limits is None or not images.shown:
        return ViewsOfImages(full, compressed, fallbacks=images.fallbacks)
    most = limits.options.max_images
    if len(images.shown) > most:
        raise UnsupportedRequestError(
            f"the full view has {len(images.shown)} images, over the limit of max_images={most}; "
            "leave out the oldest, or send them as texts"
        )
    _check_control(messages, limits.control)
    parts = {place: _part(pixels(picture, limits.options)) for place, picture in images.shown.items()}
    shown = _with(full, parts)
    return ViewsOfImages(full, compressed, shown, images.fallbacks)


def joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, neighbouring texts in each joined by lines, as they are in a message of text alone.

    A template that takes parts would run them together.
    """
    return tuple(
        message.model_copy(update={"content": _joined(message.content)})
        if isinstance(message.content, tuple)
        else message
        for message in messages
    )


def _joined(content: Sequence[ContentPart]) -> tuple[ContentPart, ...]:
    parts: list[ContentPart] = []
    for is_text, group in itertools.groupby(content, lambda part: part.type == "text"):
        if is_text:
            parts.append(ContentPart(type="text", text="\n".join(part.text or "" for part in group)))
        else:
            parts.extend(group)
    return tuple(parts)


def _part(picture: Any) -> ContentPart:
    """The picture as vLLM takes one that is decoded: it is known by its pixels then."""
    return ContentPart.model_validate({"type": SHOWN, SHOWN: picture})


def _named(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages, images in them replaced by the names of their types, as for any reader of text."""
    named = {
        (index, number): ContentPart(type="text", text=f"[{part.type}]")
        for index, message in enumerate(messages)
        for number, part in enumerate(message.content if isinstance(message.content, tuple) else ())
        if part.type in IMAGE_TYPES
    }
    return _with(messages, named)


def _with(messages: Sequence[Message], parts: Mapping[Place, ContentPart]) -> tuple[Message, ...]:
    """The messages with these parts in the places of others."""
    changed = list(messages)
    for (index, number), part in parts.items():
        content: Any = changed[index].content
        changed[index] = changed[index].model_copy(
            update={"content": (*content[:number], part, *content[number + 1 :])}
        )
    return tuple(changed)


def _check_control(messages: Sequence[Message], control: Sequence[str]) -> None:
    """Refuses texts with the drafter's own token for images: it could not be told from an image."""
    for index, message in enumerate(messages):
        for text in message.texts():
            for token in control:
                if token in text:
                    raise UnsupportedRequestError(
                        f"messages[{index}]: a text has {token!r}, with which the drafter marks images; "
                        "in a request with images, leave it out"
                    )
