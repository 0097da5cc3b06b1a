"""What kind of file some bytes are, told by the bytes alone: names and media types are often wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .plain_text import is_text

__all__ = ["FileKind", "kind_of"]

Group = Literal["document", "text", "image", "other"]

_IMAGES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"\x00\x00\x01\x00", "ICO"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"),
)
_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"{\\rtf", "RTF"),
    (b"\x1f\x8b", "GZIP archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"\x7fELF", "program"),
    (b"MZ\x90", "program"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg audio"),
    (b"fLaC", "FLAC audio"),
    (b"%!PS", "PostScript"),
    (b"8BPS\x00", "Photoshop image"),
    (b".snd\x00", "AU audio"),
    (b"\xfd7zXZ\x00", "XZ archive"),
    (b"BZh", "BZIP2 archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"PAR1", "Parquet table"),
)
_BRANDS = {
    b"avif": "AVIF",
    b"avis": "AVIF",
    b"heic": "HEIC",
    b"heix": "HEIC",
    b"mif1": "HEIC",
    b"hevc": "HEIC",
}
_RIFFS = {b"WEBP": "WebP", b"WAVE": "WAV audio", b"AVI ": "AVI video"}
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})  # in bytes, one for each version
_PIXMAP = re.compile(rb"P[4-6](?:\s+|#[^\n]*\n)*\s\d{1,9}\s")
_TGA_END = b"TRUEVISION-XFILE.\x00"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_OFFICE = {b"word": "DOCX", b"xl": "XLSX", b"ppt": "PPTX"}
_DIRECTORY_ENTRY = re.compile(rb"PK\x01\x02.{42}(word|xl|ppt)/", re.S)
_MEMBER = re.compile(rb"PK\x03\x04.{26}(word|xl|ppt)/", re.S)
_HEAD_BYTES = 4_096
_MAIL_BYTES = 65_536  # their headers are long
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_SVG = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*|<!doctype\s+svg[^>\[]*(?:\[.*?\]\s*)?>\s*)*<(?:\w+:)?svg\b",
    re.I | re.S,
)
_MAIL_FIELD = re.compile(rb"(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)+\r?\n")
_MAIL_NAMES = re.compile(rb"^(?:from|to|date|subject|received|message-id|mime-version):", re.I | re.M)


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind's name, as notes show it, and what can be done with it: `other` cannot be read as text."""

    name: str
    group: Group


def kind_of(data: bytes, charset: str | None = None) -> FileKind:
    """The kind of file, by its first bytes, by the members of a zipped format, or as text.

    `charset` is the encoding that its sender states, should it be text.
    """
    head = data[:_HEAD_BYTES]
    bare = head.removeprefix(b"\xef\xbb\xbf")
    if b"%PDF-" in head[:1_024]:  # readers accept some bytes before it
        return FileKind("PDF", "document")
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(data)
    if data.startswith(_OLE):
        is_encrypted = _ENCRYPTED_OFFICE in data
        return FileKind("encrypted Office file" if is_encrypted else "Office file of the old format", "other")
    for magic, name in _IMAGES:
        if data.startswith(magic):
            return FileKind(name, "image")
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return FileKind("BMP", "image")
    if data.startswith(b"RIFF"):
        riff = _RIFFS.get(data[8:12])
        if riff is not None:
            return FileKind(riff, "image" if riff == "WebP" else "other")
    if _PIXMAP.match(head):
        return FileKind("PPM", "image")
    if data.endswith(_TGA_END):
        return FileKind("TGA", "image")
    if data[4:8] == b"ftyp":
        brand = _BRANDS.get(data[8:12])
        return FileKind(brand, "image") if brand is not None else FileKind("MP4 media", "other")
    for magic, name in _OTHERS:
        if data.startswith(magic):
            return FileKind(name, "other")
    if _SVG.match(bare):
        return FileKind("SVG", "image")
    if _HTML.match(bare):
        return FileKind("HTML", "document")
    if not is_text(data, charset):
        return FileKind("binary file", "other")
    fields = _MAIL_FIELD.match(data[:_MAIL_BYTES].removeprefix(b"\xef\xbb\xbf"))
    if fields is not None and len(set(_MAIL_NAMES.findall(fields.group().lower()))) >= 2:
        return FileKind("e-mail", "document")
    return FileKind("text", "text")


def _zipped(data: bytes) -> FileKind:
    """By names of members, which stand uncompressed: so a broken archive is told as well."""
    if data[30:38] == b"mimetype":
        stated = data[38:100]
        if stated.startswith(b"application/vnd.oasis.opendocument"):
            return FileKind("OpenDocument file", "other")
        if stated.startswith(b"application/epub+zip"):
            return FileKind("EPUB", "other")
    if b"[Content_Types].xml" in data:
        end = data.rfind(b"PK\x05\x06")
        start = int.from_bytes(data[end + 16 : end + 20], "little")
        # Members may be Office files themselves, whose own directories stand before this one.
        found = _DIRECTORY_ENTRY.search(data, start, end) if end >= 0 else _MEMBER.search(data)
        if found is not None:
            return FileKind(_OFFICE[found.group(1)], "document")
    return FileKind("ZIP archive", "other")
