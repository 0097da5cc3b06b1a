"""PDF to text with PDFium, page by page; pictures of pages that have no text layer."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from .limits import Converted, Limits, Losses, RefusedError, joined

__all__ = ["convert_pdf"]

_RENDER_SCALE = 2.5  # 180 dots per inch: enough for small print
_MAX_SIDE = 2_600
_SOFT_HYPHEN = re.compile("\ufffe\n?|\u00ad\n")


def convert_pdf(data: bytes, limits: Limits) -> Converted:
    """The text of each page under its number, form fields included. Raises RefusedError."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        is_locked = "password" in str(error).lower() or "security" in str(error).lower()
        raise RefusedError("it is encrypted" if is_locked else "it is broken or cut short") from None
    num_pages = len(document)
    if num_pages == 0:
        raise RefusedError("it has no pages")
    if document.get_formtype():
        document.init_forms()
    reader = _Pages(document, limits)
    shown = min(num_pages, limits.max_pages)
    text = joined(reader.texts(shown), limits, "the rest")
    if num_pages > shown:
        text += f"\n[… pages {shown + 1:,} to {num_pages:,} left out: over {limits.max_pages:,} pages …]"
    if reader.blank:
        text = f"{_without_text(reader.blank, shown)}\n{text}".rstrip()
    title = str(document.get_metadata_dict().get("Title") or "") or None
    length = f"{num_pages:,} page" + ("s" if num_pages != 1 else "")
    pages, pictures = tuple(reader.pictured), tuple(reader.pictures)
    return Converted(text, title, length, pages, pictures, len(reader.blank) == shown, reader.losses.count)


def _without_text(blank: list[int], shown: int) -> str:
    if len(blank) == shown:
        return "[no text layer: its pages are images]"
    named = ", ".join(f"{number:,}" for number in blank[:20]) + (", …" if len(blank) > 20 else "")
    return f"[no text layer on {len(blank):,} of {shown:,} pages: {named}]"


class _Pages:
    def __init__(self, document: Any, limits: Limits) -> None:
        self._document = document
        self._limits = limits
        self.losses = Losses()
        self.blank: list[int] = []
        self.pictured: list[int] = []
        self.pictures: list[bytes] = []

    def texts(self, num_pages: int) -> Iterator[str]:
        for number in range(1, num_pages + 1):
            try:
                text = self._page(number)
            except MemoryError:
                raise
            except Exception:  # a broken page costs itself
                text = self.losses.mark("this page")
            if text:
                yield f"[page {number}]\n{text}" if len(self._document) > 1 else text

    def _page(self, number: int) -> str:
        page = self._document[number - 1]
        try:
            if self._document.formenv is not None:
                page.flatten()  # what was typed into fields becomes text of the page
                page.close()
                page = self._document[number - 1]
            text = _cleaned(page.get_textpage().get_text_range())
            if not text and next(iter(page.get_objects(max_depth=2)), None) is not None:
                self.blank.append(number)
                self._picture(page, number)
            return text
        finally:
            page.close()

    def _picture(self, page: Any, number: int) -> None:
        if len(self.pictures) >= self._limits.ocr_pages:
            return
        width, height = page.get_size()
        scale = min(_RENDER_SCALE, _MAX_SIDE / max(width, height, 1))
        buffer = io.BytesIO()
        try:
            page.render(scale=scale).to_pil().convert("RGB").save(buffer, "PNG")
        except (ValueError, OSError, RuntimeError):  # it stays a page without text
            return
        self.pictured.append(number)
        self.pictures.append(buffer.getvalue())


def _cleaned(text: str) -> str:
    text = _SOFT_HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()
