"""Files of a question as parts of a message: their text, and for images what stands for them in text.

Texts are made as ContextRouter makes them (asymspec_agents.attachments): documents converted, images read by
OCR, and a line for what cannot be read, such as audio and video.
"""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from asymspec_agents.attachments import AttachmentPolicy, Attachments, RapidOCRReader
from asymspec_agents.attachments.kinds import kind_of
from asymspec_agents.attachments.notes import header, note
from asymspec_agents.messages import Message, parse_messages
from asymspec_agents.store import MemoryStore

from .sample import LongPart
from .unpacking import members_of

__all__ = ["Attached", "AttachedFiles", "image_part", "inside"]

_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp"}


@dataclass(frozen=True, slots=True)
class Attached:
    """A file as text; `image` is the part for a model that sees, None for what is no image it can take.

    `is_complete`: nothing of it had to be left to a note.
    """

    text: str
    image: dict[str, Any] | None = None
    is_complete: bool = True

    def part(self, sees_images: bool) -> dict[str, Any]:
        """The content part of the full view."""
        if sees_images and self.image is not None:
            return self.image
        return {"type": "text", "text": self.text}

    def long_part(self, message: int, part: int, sees_images: bool) -> LongPart:
        """Where the part stands, for the compressed view, which shows the text."""
        is_image = sees_images and self.image is not None
        return LongPart(message, part, self.text if is_image else None)


class AttachedFiles:
    """Reads files, each content once; what converts them starts with the first that needs it.

    `attachments` says how, by default whole documents and OCR. Raises MissingDependencyError without the
    extra `vision`, so that no run quietly reads less than another.
    """

    def __init__(self, attachments: Attachments | None = None) -> None:
        self._attachments = attachments
        self._lock = threading.Lock()

    def read(self, name: str, data: bytes | None) -> Attached:
        """The file's text and image; of a ZIP archive the texts of its files. Raises nothing for any bytes.

        A file without data, an archive in an archive, and what else cannot be read is told by a note.
        """
        members = members_of(data) if data is not None and kind_of(data).name == "ZIP archive" else None
        if not members:
            return self._read(name, data, "it is missing")
        read = [self._read(member.name, member.data, "it cannot be unpacked") for member in members]
        listed = f"{len(read):,} file" + ("s" if len(read) != 1 else "")
        text = "\n\n".join([header("archive", name, [listed], data or b""), *(one.text for one in read)])
        return Attached(text, is_complete=all(one.is_complete for one in read))

    def _read(self, name: str, data: bytes | None, lack: str) -> Attached:
        if data is None:
            return Attached(note("file", name, lack), is_complete=False)
        image = image_part(data)
        url = f"data:application/octet-stream;base64,{_encoded(data)}"
        file = {"type": "file", "file": {"filename": name, "file_data": url}}
        part = file if image is None else {**image, "filename": name}
        messages: tuple[Message, ...] = parse_messages([{"role": "user", "content": [part]}])
        read = self._reader().read(messages, MemoryStore())
        text = "\n".join(read.shortened[0].texts())
        return Attached(text, image, read.num_degraded == 0)

    def _reader(self) -> Attachments:
        with self._lock:
            if self._attachments is None:
                self._attachments = Attachments(AttachmentPolicy(), text_reader=RapidOCRReader())
            return self._attachments


def image_part(data: bytes) -> dict[str, Any] | None:
    """An image as a content part, if it is of a format that vision models take."""
    media_type = _MEDIA_TYPES.get(kind_of(data).name)
    if media_type is None:
        return None
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{_encoded(data)}"}}


def inside(folder: Path, name: str) -> Path | None:
    """The file of that relative name in a folder; None where there is none, or it leads out of the folder."""
    relative = PurePosixPath(name)  # not resolved: the hub's cache is made of links that lead elsewhere
    if not name or relative.is_absolute() or ".." in relative.parts:
        return None
    path = folder / relative
    return path if path.is_file() else None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
