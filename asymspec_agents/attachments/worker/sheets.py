"""XLSX to tab-separated rows, sheet by sheet, with openpyxl."""

from __future__ import annotations

import datetime
import io
import itertools
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from .charts import chart_lines
from .limits import Converted, Limits, Losses, RefusedError, check_archive, joined

__all__ = ["convert_xlsx"]

_MAX_PADDED_COLUMNS = 100
_BESIDE = re.compile(r"xl/styles\.xml|xl/theme/|docProps/")
_CHARTS = re.compile(r"xl/charts/chart\d*\.xml")
_FORMULA = re.compile(rb"<(?:\w+:)?f[ >/]")
_SPACE = re.compile(r"[\t\n\r\v\f]+")


def convert_xlsx(data: bytes, limits: Limits) -> Converted:
    """Every row that has a value; a formula without a stored value is shown itself. Raises RefusedError."""
    import openpyxl

    archive, losses = check_archive(data, limits), Losses()
    marks: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about features that have no text
            try:
                values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            except MemoryError:
                raise
            except Exception:  # most often its styles: the numbers are there without them
                data = _without_styles(archive)
                values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
                marks.append(losses.mark("the formats (dates are shown as numbers)"))
            formulas = (
                openpyxl.load_workbook(io.BytesIO(data), read_only=True) if _has_formulas(archive) else values
            )
            counts: list[int] = []
            lines = itertools.chain(
                marks, _sheets(values, formulas, limits, counts, losses), _charts(archive)
            )
            text = joined(lines, limits, "the rest")
    except (KeyError, IndexError, ValueError, OSError, TypeError, SyntaxError, AttributeError) as error:
        raise RefusedError("it is broken or cut short") from error
    sheets = len(values.worksheets)
    if sheets > limits.max_pages:
        text += f"\n[… {sheets - limits.max_pages:,} sheets left out: over {limits.max_pages:,} sheets …]"
    rows = sum(counts)
    text = text if rows or losses.count else ""
    length = f"{sheets:,} sheet{'s' if sheets != 1 else ''}, {rows:,} row{'s' if rows != 1 else ''}"
    return Converted(text, values.properties.title or None, length, num_lost=losses.count)


def _without_styles(archive: zipfile.ZipFile) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name in dict.fromkeys(archive.namelist()):
            if not _BESIDE.match(name):
                made.writestr(name, archive.read(name))
    return buffer.getvalue()


def _charts(archive: zipfile.ZipFile) -> Iterator[str]:
    """The titles and the names of the series; the numbers stand in the sheets."""
    for name in filter(_CHARTS.fullmatch, archive.namelist()):
        try:
            title, *lines = chart_lines(archive.read(name))
        except ElementTree.ParseError:
            continue
        names = [line.split(" | ")[0].removeprefix("| ") for line in lines if not line.startswith("| | ")]
        series = ", ".join(filter(None, names))
        yield f"{title} {series}".rstrip()


def _has_formulas(archive: zipfile.ZipFile) -> bool:
    sheets = [name for name in archive.namelist() if re.fullmatch(r"xl/worksheets/.*\.xml", name)]
    return any(_FORMULA.search(archive.read(name)) for name in sheets)


def _sheets(values: Any, formulas: Any, limits: Limits, counts: list[int], losses: Losses) -> Iterator[str]:
    pairs = zip(values.worksheets, formulas.worksheets, strict=True)
    left = limits.max_text_chars
    for sheet, with_formulas in itertools.islice(pairs, limits.max_pages):
        rows: list[list[str]] = []
        size, mark = 0, None
        try:
            sheet.reset_dimensions()  # what a file states of its size is often wrong
            with_formulas.reset_dimensions()
            for row in _rows(sheet, with_formulas):
                rows.append(row)
                size += sum(map(len, row)) + len(row)
                if size > left:
                    break
        except MemoryError:
            raise
        except Exception:  # a broken sheet costs its rows from there on
            mark = losses.mark("the rest of this sheet" if rows else "this sheet")
        left -= min(size, left)
        counts.append(len(rows))
        width = max(map(len, rows), default=0)
        hidden = "" if sheet.sheet_state == "visible" else ", hidden"
        yield f"## {_SPACE.sub(' ', sheet.title)} ({len(rows):,} rows, {width:,} columns{hidden})"
        padded = width if width <= _MAX_PADDED_COLUMNS else 0
        for row in rows:
            yield "\t".join(row + [""] * (padded - len(row)))
        if mark is not None:
            yield mark
        yield ""


def _rows(sheet: Any, with_formulas: Any) -> Iterator[list[str]]:
    rows: Iterable[tuple[Any, ...]] = sheet.iter_rows(values_only=True)
    if with_formulas is not sheet:
        written = with_formulas.iter_rows(values_only=True)
        rows = (tuple(map(_either, *pair)) for pair in zip(rows, written, strict=False))
    for row in rows:
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield cells


def _either(value: object, formula: object) -> object:
    return value if value is not None else formula


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, bool):
        return str(value).upper()
    text = str(getattr(value, "text", value))  # an array's formula is an object with a text
    return _SPACE.sub(" ", text).strip()
