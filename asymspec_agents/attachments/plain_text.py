"""Bytes as text: whether they are text, and in which encoding.

In this order: a byte order mark, UTF-8, the stated encoding, and what `encodings` makes of the bytes. Nothing
counts as text that decodes to something else than written words: any bytes at all decode in some encoding.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from .encodings import guessed, is_filling

__all__ = ["decode", "encoding_of", "is_text"]

_SAMPLE_BYTES = 65_536
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHIFTS = re.compile(rb"\x1b(?:\$[@B]|\(J)")  # as ISO 2022 turns to Japanese
_SEVEN_BIT = re.compile(r"iso-?2022|hz", re.I)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # not escape: terminals' colours are text
_UNWRITTEN = frozenset({"Cc", "Cn", "Cs", "Co"})
_MOST_UNWRITTEN = 200  # one character in so many may be no text
_MOST_BROKEN = 4  # one sequence of UTF-8 in so many may be broken
_SPACES = "\t\n\r\v\f\x1b"
_LATIN_1 = frozenset({"ascii", "iso8859-1"})


def is_text(data: bytes, stated: str | None = None) -> bool:
    """Whether the beginning is text in some encoding; `stated` is what its sender says, who may be wrong."""
    return encoding_of(data, stated) is not None


def decode(data: bytes, stated: str | None = None) -> str:
    """The text, line ends as `\\n`; every byte stands for something, undecodable ones for U+FFFD."""
    text = data.decode(encoding_of(data, stated) or "cp1252", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encoding_of(data: bytes, stated: str | None = None) -> str | None:
    """The name of the text's encoding; None for bytes that are no text."""
    sample = data[:_SAMPLE_BYTES]
    for bom, name in _BOMS:
        if data.startswith(bom):
            return name if _is_written(_decoded(sample, name, "replace") or "") else None
    known = _known(stated)
    if known is not None and _SEVEN_BIT.match(known) and _decoded(data, known) is not None:
        return known
    if _is_utf8(data):
        if len(_CONTROL.findall(sample)) * _MOST_UNWRITTEN <= len(sample):
            return "iso2022_jp_2" if _is_shifted(data) else "utf-8"
    elif known is not None:
        text = _decoded(data, known)
        if text is not None and _is_written(text[:_SAMPLE_BYTES]) and not is_filling(sample):
            return known
    wide = _wide(sample, known)
    if wide is not None:
        return wide
    if len(_CONTROL.findall(sample)) * _MOST_UNWRITTEN > len(sample) or b"\x00" in sample:
        return None
    return guessed(sample)


def _known(stated: str | None) -> str | None:
    """The stated encoding's name; senders say Latin-1 and mean what Windows makes of it."""
    try:
        name = codecs.lookup((stated or "").strip("\"' ")).name
        is_text = isinstance(b"".decode(name), str)
    except (LookupError, ValueError, TypeError, UnicodeError):  # unknown, or no encoding of text
        return None
    if not is_text or name in ("unicode_escape", "raw_unicode_escape", "idna", "punycode", "utf-7"):
        return None
    return "cp1252" if name in _LATIN_1 else name


def _is_utf8(data: bytes) -> bool:
    """Whether it is UTF-8, at most with a broken place here and there."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = data[: 16 * _SAMPLE_BYTES].decode("utf-8", "replace")
        num_broken = text.count("\ufffd")
        num_whole = sum(character > "\x7f" for character in text) - num_broken
        return num_broken * _MOST_BROKEN <= num_whole
    return True


def _is_shifted(data: bytes) -> bool:
    return _SHIFTS.search(data) is not None and _decoded(data, "iso2022_jp_2") is not None


def _wide(sample: bytes, known: str | None) -> str | None:
    """UTF-16 and UTF-32 without a mark: most of the bytes of common text that stand at one place are zero."""
    zeros = [sample[start::4].count(0) / max(1, len(sample) // 4) for start in range(4)]
    if len(sample) < 4:
        return None
    names = {
        "utf-32-le": min(zeros[2], zeros[3]) > 0.95 and zeros[0] < 0.1,
        "utf-32-be": min(zeros[0], zeros[1]) > 0.95 and zeros[3] < 0.1,
        "utf-16-le": min(zeros[1], zeros[3]) > 0.7 and max(zeros[0], zeros[2]) < 0.1,
        "utf-16-be": min(zeros[0], zeros[2]) > 0.7 and max(zeros[1], zeros[3]) < 0.1,
    }
    for name, is_likely in names.items():
        if is_likely or known == name:
            text = _decoded(sample[: len(sample) // 4 * 4], name, "replace")
            if text and _is_written(text):
                return name
    return None


def _decoded(data: bytes, name: str, errors: str = "strict") -> str | None:
    try:
        return data.decode(name, errors)
    except (UnicodeError, ValueError, LookupError):
        return None


def _is_written(text: str) -> bool:
    """Whether hardly a character is a control, unassigned or a sign for what could not be decoded."""
    num_unwritten = sum(
        character == "\ufffd" or (unicodedata.category(character) in _UNWRITTEN and character not in _SPACES)
        for character in text
    )
    return num_unwritten * _MOST_UNWRITTEN <= len(text)
