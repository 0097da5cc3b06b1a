"""Bytes as text: whether they are text, and in which encoding."""

from __future__ import annotations

import codecs
import re

__all__ = ["decode", "is_text"]

_SAMPLE_BYTES = 65_536
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # not escape: terminals' colours are text


def is_text(data: bytes) -> bool:
    """Whether the beginning looks like text: a byte order mark, UTF-16, or hardly a control character."""
    sample = data[:_SAMPLE_BYTES]
    if any(sample.startswith(bom) for bom, _ in _BOMS) or _utf16(sample) is not None:
        return True
    return len(_CONTROL.findall(sample)) * 200 <= len(sample)


def decode(data: bytes) -> str:
    """The text, line ends as `\\n`; every byte stands for something, undecodable ones for U+FFFD."""
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), None) or _utf16(
        data[:_SAMPLE_BYTES]
    )
    if encoding is None:
        try:
            return _lines(data.decode("utf-8"))
        except UnicodeDecodeError:
            encoding = _guessed(data)
    return _lines(data.decode(encoding, "replace"))


def _utf16(sample: bytes) -> str | None:
    """UTF-16 without a mark: nearly every second byte of common text is zero."""
    if len(sample) < 4:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = len(sample) // 2
    if odd >= 0.7 * half and even <= 0.05 * half:
        return "utf-16-le"
    return "utf-16-be" if even >= 0.7 * half and odd <= 0.05 * half else None


def _guessed(data: bytes) -> str:
    """The most likely encoding of text that is not UTF-8."""
    sample = data[:_SAMPLE_BYTES]
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > len(sample) - 4 or not sample[error.start :]:
            return "utf-8"
    else:
        return "utf-8"  # it is a later byte that is wrong
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    found = from_bytes(sample).best()
    return found.encoding if found is not None else "cp1252"


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
