"""DOCX and PPTX to Markdown: mammoth reads the one, python-pptx the other."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

from .charts import chart_lines
from .limits import Converted, Limits, Losses, RefusedError, check_archive, joined
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
_CHARTS = re.compile(r"word/charts/chart\d*\.xml")
_NEEDED = ("[Content_Types].xml", "word/document.xml", "_rels/.rels")
_SPACES = re.compile(r"[\s\[\]]+")
_MAX_DEPTH = 20  # of groups in groups


def convert_docx(data: bytes, limits: Limits) -> Converted:
    """Headings, paragraphs, lists, tables, foot- and endnotes; a picture is its description.

    Behind the text, what mammoth does not read: headers and footers, comments, and equations as plain text.
    """
    import mammoth

    archive, losses = check_archive(data, limits), Losses()
    pictures = mammoth.images.img_element(lambda image: {"src": ""})
    marks = [losses.mark(f"the part {_SPACES.sub(' ', name)}") for name in _broken(archive)]
    whole = _without(archive, set(_broken(archive))) if marks else data
    try:
        html = mammoth.convert_to_html(io.BytesIO(whole), convert_image=pictures).value
    except MemoryError:
        raise
    except RecursionError:
        raise RefusedError("it is nested too deeply") from None
    except Exception:  # one odd element costs the formatting, not the text
        text = "\n\n".join(_paragraphs(archive, losses))
        if not text:
            raise RefusedError("it is broken or cut short") from None
    else:
        text = _PICTURE.sub(lambda found: _picture(found.group(1)), markdown(html))
    text = joined([*marks, text, *_beside(archive), *_charts(archive, losses)], limits, "the rest")
    return Converted(text, _core_title(archive), num_lost=losses.count)


def _broken(archive: zipfile.ZipFile) -> list[str]:
    """The parts that are no XML, and that the document can do without."""
    broken = []
    for name in archive.namelist():
        if name.endswith((".xml", ".rels")) and name not in _NEEDED and not _CHARTS.fullmatch(name):
            try:
                for _ in ElementTree.iterparse(archive.open(name)):
                    pass
            except ElementTree.ParseError:
                broken.append(name)
    return broken


def _without(archive: zipfile.ZipFile, names: set[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name in dict.fromkeys(archive.namelist()):
            if name not in names:
                made.writestr(name, archive.read(name))
    return buffer.getvalue()


def _paragraphs(archive: zipfile.ZipFile, losses: Losses) -> Iterator[str]:
    """The body's paragraphs as plain text, up to where its XML ends or breaks."""
    text: list[str] = []
    try:
        for _, node in ElementTree.iterparse(archive.open("word/document.xml")):
            if node.tag == _WORDS.format("t"):
                text.append(node.text or "")
            elif node.tag == _WORDS.format("tab"):
                text.append("\t")
            elif node.tag == _WORDS.format("p"):
                if any(text):
                    yield "".join(text)
                text = []
                node.clear()
    except (KeyError, ElementTree.ParseError):
        if any(text):
            yield "".join(text)
        yield losses.mark("the rest of the body")
    else:
        yield losses.mark("the formatting")


def _charts(archive: zipfile.ZipFile, losses: Losses) -> Iterator[str]:
    for name in filter(_CHARTS.fullmatch, archive.namelist()):
        try:
            yield "\n".join(chart_lines(archive.read(name)))
        except ElementTree.ParseError:
            yield losses.mark("a chart")


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

    archive, losses = check_archive(data, limits), Losses()
    try:
        deck = pptx.Presentation(io.BytesIO(data))
        identities = list(deck.slides._sldIdLst)
    except (KeyError, IndexError, ValueError, OSError, SyntaxError, AttributeError) as error:
        raise RefusedError("it is broken or cut short") from error
    num_slides = len(identities)
    num_shown = min(num_slides, limits.max_pages)
    text = joined((_slide(deck, place, losses) for place in range(num_shown)), limits, "the rest")
    if num_slides > num_shown:
        text += (
            f"\n[… slides {num_shown + 1:,} to {num_slides:,} left out: over {limits.max_pages:,} slides …]"
        )
    length = f"{num_slides:,} slide" + ("s" if num_slides != 1 else "")
    return Converted(text, _core_title(archive), length, num_lost=losses.count)


def _slide(deck: Any, place: int, losses: Losses) -> str:
    name = ""
    try:
        slide = deck.slides[place]
        title = slide.shapes.title
        if title is not None and title.has_text_frame:
            name = " ".join(title.text_frame.text.split())
        shapes = list(slide.shapes)
    except MemoryError:
        raise
    except Exception:  # a broken slide costs itself
        return f"## Slide {place + 1}\n{losses.mark('this slide')}\n"
    lines = [f"## Slide {place + 1}" + (f": {name}" if name else "")]
    for shape in shapes:
        if title is None or shape._element is not title._element:
            lines += _lines(lambda shape=shape: _shape(shape, losses), "a shape", losses)  # type: ignore[misc]
    lines += _lines(lambda: _notes(slide), "the notes", losses)
    return "\n".join(lines) + "\n"


def _lines(read: Callable[[], Iterator[str]], what: str, losses: Losses) -> list[str]:
    """The lines that are read, with a mark in place of those that fail."""
    lines: list[str] = []
    try:
        lines.extend(read())
    except MemoryError:
        raise
    except Exception:  # features that the library does not know, parts that are not there
        lines.append(losses.mark(what))
    return lines


def _notes(slide: Any) -> Iterator[str]:
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {notes}"


def _shape(shape: Any, losses: Losses, depth: int = 0) -> Iterator[str]:
    kind = type(shape).__name__
    if kind == "GroupShape":
        if depth >= _MAX_DEPTH:
            yield losses.mark("a group in groups")
            return
        for inner in shape.shapes:
            yield from _lines(lambda inner=inner: _shape(inner, losses, depth + 1), "a shape", losses)  # type: ignore[misc]
    elif kind in ("Picture", "PlaceholderPicture", "Movie"):
        yield _picture(shape._element._nvXxPr.cNvPr.get("descr") or "")
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "| " + " | ".join(" ".join(cell.text.split()) for cell in row.cells) + " |"
    elif getattr(shape, "has_chart", False):
        yield from _lines(lambda: chart_lines(shape.chart_part.blob), "a chart", losses)
    elif shape.has_text_frame:
        text = shape.text_frame.text.replace("\v", "\n").strip()
        if text:
            yield text
    elif kind == "GraphicFrame":
        is_embedded = any(str(node.tag).endswith("}oleObj") for node in shape._element.iter())
        yield from ["[embedded file]"] if is_embedded else _diagram(shape)


def _diagram(shape: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram, which stand in a part of their own."""
    for node in shape._element.iter():
        for name, value in node.attrib.items():
            if name.endswith("}dm"):
                part = shape.part.related_part(value)
                for text in ElementTree.fromstring(part.blob).iter(_DRAWING_TEXT):
                    if text.text and text.text.strip():
                        yield text.text.strip()
