"""MathVista's release: the rows of testmini, their images, and the texts that stand for images.

Source: HF AI4Math/MathVista (Parquet with images) and GitHub lupantech/MathVista (data/testmini.json;
data/texts: captions by Bard, text by EasyOCR, cleaned as in evaluation/build_query.py). Both also as local
copies.
"""

from __future__ import annotations

import ast
import json
import threading
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from ..attached import inside
from ..columns import read_columns
from ..reading import Row, read_rows
from ..sources import fetch, hub_file
from ..unpacking import UNREADABLE

__all__ = ["ImageText", "Images", "Release", "clean_caption", "clean_ocr", "image_text"]

REPOSITORY = "AI4Math/MathVista"
REVISION = "2b6ad69445fbb5695c9b165475e8decdbeb97747"
TABLE = "data/testmini-00000-of-00001-725687bf7a18d64b.parquet"
_RAW = "https://raw.githubusercontent.com/lupantech/MathVista"
CAPTIONS = "texts/captions_bard.json"
OCRS = "texts/ocrs_easyocr.json"
TEXT_URLS = {
    CAPTIONS: f"{_RAW}/f036866d1e4de05a8311e0e9216010555da39ea9/data/{CAPTIONS}",
    OCRS: f"{_RAW}/ed0d56de2146e75ec9d389ffce6e8af05431e846/data/{OCRS}",
}
NAMES = ("testmini*.parquet", "testmini.json", "annot_testmini.json")
PATTERNS = tuple(folder + name for name in NAMES for folder in ("", "data/"))
_IMAGE_COLUMN = "decoded_image"
# What Bard says around a description; upstream drops these sentences in this order.
_FILLERS = (
    "Sure. ",
    "Sure, I can do that.",
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm unable to help you with that, as I'm only a language model and don't have the necessary "
    "information or abilities.",
    "I'm not programmed to assist with that.",
    "Please let me know if you have any other questions.",
    "I hope this is helpful!",
    "I hope this helps!",
)


class Images:
    """Images by problem: from Parquet tables, or from `images` or `images.zip` in one of the folders."""

    def __init__(self, tables: tuple[Path, ...], folders: tuple[Path, ...]) -> None:
        self._tables = tuple(table for table in tables if table.suffix == ".parquet")
        self._folders = folders
        self._columns: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def read(self, pid: str, name: str) -> bytes | None:
        """The image's bytes; None where there is none."""
        if self._tables:
            stored = self._stored().get(pid)
            data = stored.get("bytes") if isinstance(stored, Mapping) else stored
            if isinstance(data, bytes) and data:
                return data
        for folder in self._folders:
            path = inside(folder, name)
            if path is not None:
                return path.read_bytes()
            data = _zipped(folder / "images.zip", name)
            if data is not None:
                return data
        return None

    def _stored(self) -> dict[str, Any]:
        """The tables' images, read once; others that ask meanwhile wait."""
        with self._lock:
            if self._columns is None:
                rows = (row for table in self._tables for row in read_columns(table, ("pid", _IMAGE_COLUMN)))
                self._columns = {str(row.get("pid")): row.get(_IMAGE_COLUMN) for row in rows}
            return self._columns


@dataclass(frozen=True, slots=True)
class ImageText:
    """What stands for an image, and what it is made of: `caption`, `ocr`, `caption+ocr`, or `none`."""

    text: str
    made_of: str


@dataclass(frozen=True, slots=True)
class Release:
    """Rows in their order, and what belongs to them by `pid`. Texts are as released, not cleaned."""

    rows: tuple[Row, ...]
    images: Images
    captions: Mapping[str, Any] = field(default_factory=dict)
    ocrs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path | None) -> Release:
        """The release from its hub, or of a local copy: a table, or a folder with one (also below `data`).

        Images and `texts` are looked for beside the table and in the folders around it. Raises
        ConfigurationError where there is no table, or the hub's release or its texts cannot be had.
        """
        if path is None:
            table = hub_file(REPOSITORY, TABLE, revision=REVISION)
            texts = [_texts(fetch(url, sha256=None)) for url in TEXT_URLS.values()]
            return cls(_rows((table,)), Images((table,), ()), *texts)
        tables, folders = _found(path)
        texts = [_texts(_first(folders, name)) for name in (CAPTIONS, OCRS)]
        return cls(_rows(tables), Images(tables, folders), *texts)


def image_text(pid: str, release: Release) -> ImageText:
    """The released text of an image, as upstream writes it into queries."""
    caption, ocr = clean_caption(release.captions.get(pid)), clean_ocr(release.ocrs.get(pid))
    found = {"caption": f"Image description: {caption}" if caption else ""}
    found["ocr"] = f"Image detected text: {ocr}" if ocr else ""
    made_of = "+".join(name for name in found if found[name])
    return ImageText("\n".join(filter(None, found.values())), made_of or "none")


def clean_caption(caption: object) -> str:
    """A caption without what its model says around it; empty for what is no text."""
    if not isinstance(caption, str):
        return ""
    for filler in _FILLERS:
        caption = caption.replace(filler, "").strip()
    return caption.replace("  ", " ").strip()


def clean_ocr(ocr: object) -> str:
    """EasyOCR's list as text: each find's upper left corner in whole pixels, and what it reads.

    The release has it as the source text of a Python list. Empty where that list is empty or malformed.
    """
    try:
        found = ast.literal_eval(ocr) if isinstance(ocr, str) else ocr
        pieces = [([int(box[0][0]), int(box[0][1])], text) for box, text, *_ in found]  # type: ignore[union-attr]
    except (ValueError, TypeError, SyntaxError, IndexError, OverflowError, RecursionError, MemoryError):
        return ""
    return str(pieces) if pieces else ""


def _rows(tables: Sequence[Path]) -> tuple[Row, ...]:
    return tuple(row for table in tables for row in _rows_of(table))


def _rows_of(table: Path) -> list[Row]:
    """A table's rows, without images; JSON is a list of rows or, as released, an object of rows by `pid`."""
    if table.suffix == ".parquet":
        fields: Iterable[Any] = read_columns(table, without=(_IMAGE_COLUMN,))
    elif table.suffix == ".json" and isinstance(parsed := _parsed(table), Mapping):
        fields = parsed.values()
    else:
        return read_rows(table)
    rows = [Row(f"{table.name}, record {number},", row) for number, row in enumerate(fields, 1)]
    if not rows or not all(isinstance(row.fields, Mapping) for row in rows):
        raise ConfigurationError(f"{table} holds no records")
    return rows


def _found(path: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The tables of a local copy, and the folders that may hold what belongs to them."""
    if path.is_file():
        tables = [path]
    else:
        tables = next((found for one in PATTERNS if (found := sorted(path.glob(one)))), [])
    if not tables:
        raise ConfigurationError(
            f"{path} has no table of MathVista's testmini: {', '.join(PATTERNS)}. Get {TABLE} of HF "
            f"{REPOSITORY}, or data/ of GitHub lupantech/MathVista and images.zip of the former; pass the "
            "path with --data"
        )
    home = tables[0].parent
    return tuple(tables), tuple(dict.fromkeys((home, home / "data", home.parent, home.parent / "data")))


def _first(folders: tuple[Path, ...], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _texts(path: Path | None) -> Mapping[str, Any]:
    """The `texts` of a file of captions or detected text, by problem."""
    if path is None:
        return {}
    parsed = _parsed(path)
    texts = parsed.get("texts", parsed) if isinstance(parsed, Mapping) else None
    if not isinstance(texts, Mapping):
        raise ConfigurationError(f"{path} must be an object with 'texts' by problem")
    return texts


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read as JSON: {error}") from error


def _zipped(path: Path, name: str) -> bytes | None:
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            found = next((member for member in (name, name.rpartition("/")[2]) if member in members), None)
            return archive.read(found) if found is not None else None
    except UNREADABLE as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
