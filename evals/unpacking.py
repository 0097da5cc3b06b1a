"""The files in a ZIP archive made by others, within limits of number and size."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from dataclasses import dataclass

__all__ = ["UNREADABLE", "Member", "members_of"]

UNREADABLE = (OSError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What an archive raises that is damaged, locked by a password, or packed in a way that Python lacks."""

MAX_MEMBERS = 100
MAX_BYTES = 50 * 1024 * 1024  # of all members together


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, by its name there; without `data` where it is locked, broken or over a limit."""

    name: str
    data: bytes | None


def members_of(data: bytes) -> tuple[Member, ...] | None:
    """The archive's files in their order, folders and macOS' own files left out; None for what is no archive.

    At most 100 have data, of 50 MiB together, whatever sizes the archive states.
    """
    found: list[Member] = []
    room = MAX_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.is_dir() or info.filename.startswith("__MACOSX/"):
                    continue
                read = _read(archive, info, room) if len(found) < MAX_MEMBERS else None
                room -= len(read or b"")
                found.append(Member(info.filename, read))
    except Exception:  # nothing a file holds may end a run
        return None
    return tuple(found)


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes | None:
    try:
        with archive.open(info) as file:
            data = file.read(most + 1)
    except Exception:  # a password, a method that Python lacks, or bytes that are none of the method's
        return None
    return data if len(data) <= most else None
