"""The images of a chat request: which the drafter sees, and which text stands for the others.

An image is shown where the drafter sees and its bytes come with it; no URL is ever fetched. For whoever sees
none, the text that the compressed view has in its place stands for it, in the full view too.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.attachments.parts import Attachment, read_part
from asymspec_agents.errors import MessageError, UnsupportedRequestError
from asymspec_agents.messages import ContentPart, Message
from asymspec_agents.protocol import AsymSpecRequest

__all__ = ["ImageLimits", "ViewsOfImages", "views_of_images"]

TYPES = frozenset({"image_url", "input_image", "image"})
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # no other decoder is ever started on somebody's bytes
Place = tuple[int, int]  # a message and a part of it


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What a drafter that sees may be shown with one request; `control` are tokens that only images have."""

    max_images: int
    max_pixels: int
    max_bytes: int = 20_971_520
    control: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewsOfImages:
    """A chat with images, for each who reads it.

    `shown`: the full view with the images that the drafter sees, None where there are none. `full`: the same
    with texts in their places; `compressed`: the verifier's view. `fallbacks` name what stands for images
    that the drafter does not see.
    """

    full: tuple[Message, ...]
    compressed: tuple[Message, ...]
    shown: tuple[Message, ...] | None = None
    num_shown: int = 0
    has_images: bool = False
    fallbacks: tuple[str, ...] = ()


def views_of_images(
    messages: tuple[Message, ...], asymspec: AsymSpecRequest, limits: ImageLimits | None
) -> ViewsOfImages:
    """Both views of a chat; `limits` None: the drafter sees no images.

    Raises UnsupportedRequestError for an image that nobody sees and no text replaces, and for more images
    than `limits` allow; MessageError for one that can't be read or is too large.
    """
    compressed = asymspec.compressed_messages(messages)
    parts = dict(_images(messages))
    if not parts:
        return ViewsOfImages(messages, _named(compressed))
    texts = _texts(parts, compressed)
    shown: dict[Place, ContentPart] = {}
    replaced: dict[Place, ContentPart] = {}
    has_bare = has_text = False
    for place, part in parts.items():
        attachment = None
        if limits is not None:
            attachment = read_part(part, limits.max_bytes)
        if limits is not None and attachment is not None and attachment.url is None:
            shown[place] = _readable(attachment, limits, _name(place))
            replaced[place] = texts.get(place) or _nameless(part)
        elif place in texts:
            replaced[place], has_text = texts[place], True
        elif asymspec.messages is not None:
            replaced[place], has_bare = _nameless(part), True
        else:
            raise UnsupportedRequestError(_unseen(_name(place), limits is not None))
    if limits is not None and len(shown) > limits.max_images:
        raise UnsupportedRequestError(
            f"the full view has {len(shown)} images, over the limit of max_images={limits.max_images}; "
            "leave out the oldest, or put texts in their places"
        )
    if limits is not None and shown:
        _check_control(messages, limits.control)
    full = _with(messages, replaced)
    names = (("images_as_text", has_text), ("images_without_text", has_bare))
    return ViewsOfImages(
        full=full,
        compressed=_named(compressed),
        shown=_with(full, shown) if shown else None,
        num_shown=len(shown),
        has_images=True,
        fallbacks=tuple(name for name, is_so in names if is_so),
    )


def _images(messages: Sequence[Message]) -> Iterator[tuple[Place, ContentPart]]:
    for index, message in enumerate(messages):
        for number, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if part.type in TYPES:
                yield (index, number), part


def _texts(parts: dict[Place, ContentPart], compressed: Sequence[Message]) -> dict[Place, ContentPart]:
    """What the compressed view has in the images' places, where that is text."""
    texts = {}
    for index, number in parts:
        content = compressed[index].content if index < len(compressed) else None
        if isinstance(content, tuple) and number < len(content) and content[number].type == "text":
            texts[index, number] = content[number]
    return texts


def _readable(attachment: Attachment, limits: ImageLimits, name: str) -> ContentPart:
    """The image as a part that vLLM reads. Its size is checked before anything is decoded."""
    from PIL import Image, UnidentifiedImageError

    if attachment.data is None:
        raise MessageError(f"{name}: the image can't be read: {attachment.problem}")
    limit = f"over the limit of max_image_pixels={limits.max_pixels:,}; send a smaller one"
    try:
        with Image.open(io.BytesIO(attachment.data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > limits.max_pixels:
                raise MessageError(f"{name}: the image has {width:,}x{height:,} pixels, {limit}")
            opened.load()
            kind = str(opened.format).lower()
    except (MessageError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MessageError(f"{name}: the image has far too many pixels, {limit}") from error
    except UnidentifiedImageError as error:
        raise MessageError(f"{name}: no image of a format that is read ({', '.join(FORMATS)})") from error
    except Exception as error:  # each format's decoder has its own
        raise MessageError(f"{name}: the image is broken or cut short") from error
    url = f"data:image/{kind};base64,{base64.b64encode(attachment.data).decode()}"
    return ContentPart.model_validate({"type": "image_url", "image_url": {"url": url}})


def _with(messages: Sequence[Message], parts: dict[Place, ContentPart]) -> tuple[Message, ...]:
    """The messages with these parts in the places of others."""
    changed = list(messages)
    for (index, number), part in parts.items():
        content: Any = changed[index].content
        changed[index] = changed[index].model_copy(
            update={"content": (*content[:number], part, *content[number + 1 :])}
        )
    return tuple(changed)


def _named(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages, images in them replaced by the names of their types: the verifier reads text only."""
    return _with(messages, {place: _nameless(part) for place, part in _images(messages)})


def _nameless(part: ContentPart) -> ContentPart:
    return ContentPart(type="text", text=f"[{part.type}]")


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


def _name(place: Place) -> str:
    return f"messages[{place[0]}].content[{place[1]}]"


def _unseen(name: str, sees: bool) -> str:
    why = "it comes without its bytes, and URLs are not fetched" if sees else "the drafter reads text only"
    return (
        f"{name}: nobody sees this image ({why}) and no text stands for it; give an edit of it in "
        "asymspec.edits, or leave it out"
    )
