"""The limits the converters keep to, what they give back, and why they refuse."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Converted", "Limits", "Losses", "RefusedError", "check_archive", "joined"]

_SMALL_BYTES = 16 * 1024 * 1024  # what is unpacked to less is no bomb whatever its ratio
_DECLARATION_BYTES = 1_024
_DIRECTORY_ENTRY_BYTES = 46


class RefusedError(Exception):
    """The file is not converted; the text says why and quotes nothing of the file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """See AttachmentPolicy; `ocr_pages` is 0 where nobody reads pictures of pages."""

    max_pages: int
    max_text_chars: int
    max_unpacked_bytes: int
    max_unpack_ratio: int
    max_entries: int
    max_pixels: int
    ocr_pages: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A file's text, its title where it states one, its length in its own units, and pictures of its pages.

    `pages` are the numbers of the pages in `pictures` (PNG). `lacks_text`: the file is pictures of text.
    `num_lost` parts of it could not be read, which the text marks. Of an image: the number of its pages or
    frames, and the size its pictures have been scaled to, None where they have not.
    """

    text: str
    title: str | None = None
    length: str | None = None
    pages: tuple[int, ...] = ()
    pictures: tuple[bytes, ...] = field(default=(), repr=False)
    lacks_text: bool = False
    num_lost: int = 0
    num_frames: int = 1
    scaled: tuple[int, int] | None = None


class Losses:
    """Counts what of a file could not be read, and marks it in the text."""

    def __init__(self) -> None:
        self.count = 0

    def mark(self, what: str) -> str:
        """The line that stands for it."""
        self.count += 1
        return f"[{what} could not be read]"


def joined(pieces: Iterable[str], limits: Limits, rest: str) -> str:
    """The pieces, one below the other, up to the limit of characters; `rest` names what follows it."""
    taken: list[str] = []
    left = limits.max_text_chars
    for piece in pieces:
        if len(piece) >= left:
            taken += (piece[:left], f"[… {rest} left out: over {limits.max_text_chars:,} characters …]")
            break
        taken.append(piece)
        left -= len(piece) + 1
    return "\n".join(taken)


def check_archive(data: bytes, limits: Limits) -> zipfile.ZipFile:
    """The opened archive, if it can be unpacked within the limits and its XML declares no entities."""
    end = data.rfind(b"PK\x05\x06")
    directory_bytes = int.from_bytes(data[end + 12 : end + 16], "little") if end >= 0 else 0
    if directory_bytes // _DIRECTORY_ENTRY_BYTES > limits.max_entries * 4:  # before they all become objects
        raise RefusedError(f"it has more than {limits.max_entries:,} entries")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        infos = archive.infolist()
    except (zipfile.BadZipFile, RuntimeError, ValueError, OverflowError, OSError):  # all of zipfile's own
        raise RefusedError("it is broken or cut short") from None
    if len(infos) > limits.max_entries:
        raise RefusedError(f"it has more than {limits.max_entries:,} entries")
    if any(info.flag_bits & 1 for info in infos):
        raise RefusedError("it is encrypted")
    unpacked = 0
    for info in infos:
        unpacked += _unpacked_bytes(archive, info, limits.max_unpacked_bytes - unpacked)
        is_bomb = unpacked > _SMALL_BYTES and unpacked > limits.max_unpack_ratio * len(data)
        if unpacked > limits.max_unpacked_bytes or is_bomb:
            raise RefusedError("it unpacks to more than is allowed")
    return archive


def _unpacked_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> int:
    """The member's true size: what its header states may be a lie. Looks at how its XML begins as well."""
    if info.file_size > most:
        return info.file_size
    size = 0
    try:
        with archive.open(info) as member:
            while piece := member.read(1024 * 1024):
                if size == 0 and info.filename.endswith((".xml", ".rels")):
                    _check_declarations(piece[:_DECLARATION_BYTES])
                size += len(piece)
                if size > most:
                    break
    except RefusedError:
        raise
    except Exception:  # zlib, bz2 and lzma each have their own
        raise RefusedError("it is broken or cut short") from None
    return size


def _check_declarations(head: bytes) -> None:
    """Office formats allow no document type: where there is one, it is there to do harm."""
    if (
        b"<!DOCTYPE" in head.replace(b"\x00", b"").upper()
        or b"<!ENTITY" in head.replace(b"\x00", b"").upper()
    ):
        raise RefusedError("its XML declares entities")
