"""The images of a request: which the drafter sees, and which text stands for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..attachments.kinds import kind_of
from ..attachments.parts import IMAGE_TYPES, Attachment, read_part
from ..errors import MessageError, UnsupportedRequestError
from ..messages import Message
from ..pixels import MAX_SEEN_BYTES
from ..protocol import AsymSpecRequest, Edit, apply_edits

if TYPE_CHECKING:
    from ..engine.vision.picture import Picture

__all__ = ["RequestImages", "has_images", "images_of", "seen_of"]

Place = tuple[int, int]  # a message and a part of it


@dataclass(frozen=True, slots=True)
class RequestImages:
    """The images of a full view.

    `shown`: those the drafter sees. `messages`: the full view with texts in place of all others.
    `texts`: the same with texts in place of all, as whoever sees none reads it. `fallbacks` name what stands
    for images that the drafter does not see.
    """

    shown: Mapping[Place, Picture]
    messages: tuple[Message, ...]
    texts: tuple[Message, ...]
    fallbacks: tuple[str, ...] = ()


def has_images(messages: Sequence[Message]) -> bool:
    """Whether any part is an image, by its type or by its bytes."""
    return next(_found(messages, MAX_SEEN_BYTES), None) is not None


def images_of(
    messages: tuple[Message, ...], asymspec: AsymSpecRequest | None, *, max_bytes: int | None
) -> RequestImages:
    """The images of a request and what becomes of each; `max_bytes` None: the drafter sees none.

    An image that is not seen is replaced by the text that the compressed view has in its place. Images are
    seen where their bytes come with them; no URL is ever fetched. Raises UnsupportedRequestError for an image
    that nobody sees and no text replaces, MessageError for data that cannot be read.
    """
    texts = {(edit.message, edit.part): edit for edit in (asymspec.edits or () if asymspec else ())}
    shown: dict[Place, Picture] = {}
    replaced: list[Edit] = []
    unseen: list[Edit] = []
    has_bare = False
    for place, attachment in _found(messages, max_bytes or MAX_SEEN_BYTES):
        name = _name(place)
        text = texts.get(place)
        if max_bytes is not None and attachment is not None and attachment.url is None:
            shown[place] = _picture(name, attachment)
        elif text is not None:
            unseen.append(text)
        elif asymspec is not None and asymspec.messages is not None:
            has_bare = True  # what the compressed messages say of it stands in no place of its own
        else:
            raise UnsupportedRequestError(_unseen(name, attachment, max_bytes is not None))
        if text is not None:
            replaced.append(text)
    names = (("images_as_text", bool(unseen)), ("images_without_text", has_bare))
    return RequestImages(
        shown,
        apply_edits(messages, unseen),
        apply_edits(messages, replaced),
        tuple(name for name, is_so in names if is_so),
    )


def seen_of(messages: tuple[Message, ...], *, max_bytes: int) -> dict[Place, Picture]:
    """The images of messages that come with their bytes; raises MessageError for unreadable ones."""
    return {
        place: _picture(_name(place), attachment)
        for place, attachment in _found(messages, max_bytes)
        if attachment is not None and attachment.url is None
    }


def _name(place: Place) -> str:
    return f"messages[{place[0]}].content[{place[1]}]"


def _picture(name: str, attachment: Attachment) -> Picture:
    from ..engine.vision.picture import Picture

    if attachment.data is None:
        raise MessageError(f"{name}: the image cannot be read: {attachment.problem}")
    return Picture.of(attachment.data, name)


def _found(messages: Sequence[Message], max_bytes: int) -> Iterator[tuple[Place, Attachment | None]]:
    """Each image's place, and what its part carries: None where it is a type and nothing else."""
    for index, message in enumerate(messages):
        for number, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if part.type == "text":
                continue
            attachment = read_part(part, max_bytes)
            if part.type in IMAGE_TYPES or _is_image_file(attachment):
                yield (index, number), attachment


def _is_image_file(attachment: Attachment | None) -> bool:
    data = None if attachment is None else attachment.data
    return data is not None and kind_of(data).group == "image"


def _unseen(name: str, attachment: Attachment | None, sees: bool) -> str:
    if not sees:
        why = "no model here reads images"
    elif attachment is None:
        why = "it has neither data nor a URL"
    else:
        why = "it is a URL, and URLs are not fetched; send the image as a data: URL"
    return (
        f"{name}: nobody sees this image ({why}) and no text stands for it; give an edit of it in "
        "asymspec.edits, or leave it out"
    )
