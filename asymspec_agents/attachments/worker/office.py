"""DOCX and PPTX to Markdown: mammoth reads the one, python-pptx the other."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from .limits import Converted, Limits, RefusedError, check_archive, joined
from .web import markdown

__all__ = ["convert_docx", "convert_pptx"]

_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_DRAWING_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(\)")
_WORDS = "{{http://schemas.openxmlformats.org/wordprocessingml/2006/main}}{}"
_EQUATION = "{{http://schemas.openxmlformats.org/officeDocument/2006/math}}{}"
_EDGES = re.compile(r"word/(?:header|footer)\d*\.xml")
_COMMENTS = re.compile(r"word/comments\.xml")
_BODY = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_MAX_DEPTH = 20  # of groups in groups


def convert_docx(data: bytes, limits: Limits) -> Converted:
    """Headings, paragraphs, lists, tables, foot- and endnotes; a picture is its description.

    Behind the text, what mammoth does not read: headers and footers, comments, and equations as plain text.
    """
    import mammoth

    archive = check_archive(data, limits)
    pictures = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        html = mammoth.convert_to_html(io.BytesIO(data), convert_image=pictures).value
    except (KeyError, IndexError, ValueError, OSError, ElementTree.ParseError, SyntaxError) as error:
        raise RefusedError("it is broken or cut short") from error
    text = _PICTURE.sub(lambda found: _picture(found.group(1)), markdown(html))
    return Converted(joined([text, *_beside(archive)], limits, "the rest"), _core_title(archive))


def _beside(archive: zipfile.ZipFile) -> Iterator[str]:
    """The texts of a DOCX beside its body, each once: pages repeat their headers."""
    for label, name, tag, text in (
        ("header or footer", _EDGES, _WORDS.format("p"), _WORDS.format("t")),
        ("comment", _COMMENTS, _WORDS.format("comment"), _WORDS.format("t")),
        ("equation", _BODY, _EQUATION.format("oMath"), _EQUATION.format("t")),
    ):
        found: dict[str, None] = {}
        for member in filter(name.fullmatch, archive.namelist()):
            try:
                root = ElementTree.fromstring(archive.read(member))
            except (KeyError, ElementTree.ParseError):
                continue
            for node in root.iter(tag):
                found.setdefault(" ".join("".join(part.text or "" for part in node.iter(text)).split()))
        yield from (f"[{label}] {line}" for line in found if line)


def _picture(described: str) -> str:
    described = " ".join(described.split())
    return f"[picture: {described}]" if described else "[picture]"


def _core_title(archive: Any) -> str | None:
    try:
        return ElementTree.fromstring(archive.read("docProps/core.xml")).findtext(_TITLE) or None
    except (KeyError, ElementTree.ParseError):
        return None


def convert_pptx(data: bytes, limits: Limits) -> Converted:
    """Each slide's texts, tables, charts and notes; pictures are counted."""
    import pptx

    archive = check_archive(data, limits)
    try:
        slides = list(pptx.Presentation(io.BytesIO(data)).slides)
        shown = slides[: limits.max_pages]
        text = joined((_slide(slide, number) for number, slide in enumerate(shown, 1)), limits, "the rest")
    except (KeyError, IndexError, ValueError, OSError, SyntaxError, AttributeError) as error:
        raise RefusedError("it is broken or cut short") from error
    if len(slides) > len(shown):
        text += (
            f"\n[… slides {len(shown) + 1:,} to {len(slides):,} left out: over {limits.max_pages:,} slides …]"
        )
    return Converted(text, _core_title(archive), f"{len(slides):,} slide" + ("s" if len(slides) != 1 else ""))


def _slide(slide: Any, number: int) -> str:
    title = slide.shapes.title
    name = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
    lines = [f"## Slide {number}" + (f": {name}" if name else "")]
    lines += [
        line
        for shape in slide.shapes
        if title is None or shape.shape_id != title.shape_id
        for line in _shape(shape)
    ]
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            lines.append(f"Notes: {notes}")
    return "\n".join(lines) + "\n"


def _shape(shape: Any, depth: int = 0) -> Iterator[str]:
    kind = type(shape).__name__
    if kind == "GroupShape":
        if depth < _MAX_DEPTH:
            for inner in shape.shapes:
                yield from _shape(inner, depth + 1)
    elif kind in ("Picture", "PlaceholderPicture", "Movie"):
        yield _picture(shape._element._nvXxPr.cNvPr.get("descr") or "")
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "| " + " | ".join(" ".join(cell.text.split()) for cell in row.cells) + " |"
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart)
    elif shape.has_text_frame:
        text = shape.text_frame.text.replace("\v", "\n").strip()
        if text:
            yield text
    elif kind == "GraphicFrame":
        is_embedded = any(str(node.tag).endswith("}oleObj") for node in shape._element.iter())
        yield from ["[embedded file]"] if is_embedded else _diagram(shape)


def _chart(chart: Any) -> Iterator[str]:
    title = (
        chart.chart_title.text_frame.text.strip()
        if chart.has_title and chart.chart_title.has_text_frame
        else ""
    )
    yield f"[chart: {title}]" if title else "[chart]"
    for plot in chart.plots:
        categories = [str(category) for category in plot.categories]
        if categories:
            yield "| | " + " | ".join(categories) + " |"
        for series in plot.series:
            yield (
                f"| {series.name} | "
                + " | ".join("" if v is None else f"{v:g}" for v in series.values)
                + " |"
            )


def _diagram(shape: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram, which stand in a part of their own."""
    for node in shape._element.iter():
        for name, value in node.attrib.items():
            if name.endswith("}dm"):
                part = shape.part.related_part(value)
                for text in ElementTree.fromstring(part.blob).iter(_DRAWING_TEXT):
                    if text.text and text.text.strip():
                        yield text.text.strip()
