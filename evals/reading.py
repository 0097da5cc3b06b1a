"""Records of released files: JSON lines, JSON, CSV, parquet, by path or inside a zip; odd ones are named."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

from .unpacking import UNREADABLE

__all__ = ["Row", "located", "read_rows"]

_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


@dataclass(frozen=True, slots=True)
class Row:
    """One record, and where it stands (`hotpotqa.jsonl, record 3`, from 1)."""

    place: str
    fields: Mapping[str, Any]

    def get(self, *names: str) -> Any:
        """The first of these fields that is there and neither null nor NaN; else None."""
        for name in names:
            value = self.fields.get(name)
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                return value
        return None

    def text(self, *names: str) -> str:
        """The field as text, which may be a number; raises ConfigurationError if missing or blank."""
        value = self.get(*names)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"has no text in {' or '.join(names)}")
        return value

    def texts(self, *names: str) -> tuple[str, ...]:
        """The field's texts, one or a list, without blank ones; raises ConfigurationError if none is left."""
        value = self.get(*names)
        items = value if isinstance(value, list | tuple) else (value,)
        found = tuple(
            str(item)
            for item in items
            if isinstance(item, str | int | float) and not isinstance(item, bool) and item == item
        )
        found = tuple(text for text in found if text.strip())
        if not found:
            raise self.error(f"has nothing in {' or '.join(names)}")
        return found

    def error(self, problem: str) -> ConfigurationError:
        """The error that names this record."""
        return ConfigurationError(
            f"{self.place} {problem}; its fields are {', '.join(map(str, self.fields))}"
        )


def located(path: Path, *names: str) -> Path:
    """`path` itself where it is a file; in a folder the first of `names` that is in it, or in its `data`.

    Raises ConfigurationError that lists what was looked for.
    """
    if path.is_file():
        return path
    for name in names:
        for candidate in (path / name, path / "data" / name):
            if candidate.is_file():
                return candidate
    what = "is a folder without" if path.is_dir() else "is no file, and no folder with"
    raise ConfigurationError(f"--data {path} {what} {' or '.join(names)}")


def read_rows(path: Path, member: str | None = None) -> list[Row]:
    """The records of a file, by its ending: .jsonl, .json (a list), .csv, .parquet, or of a zip's `member`.

    Text may be UTF-8 or UTF-16, with or without a byte order mark and with any line ends. A member is found
    by its name in whatever folder of the zip. Raises ConfigurationError naming the file and the record.
    """
    try:
        if member is not None:
            return _rows(member, _member(path, member))
        return _rows(path.name, path.read_bytes())
    except UNREADABLE as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def _member(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).name == member and not name.startswith("__MACOSX/"):
                return archive.read(name)
    raise ConfigurationError(f"{path} holds no {member}")


def _rows(name: str, data: bytes) -> list[Row]:
    ending = PurePosixPath(name).suffix.lower()
    if ending == ".jsonl":
        items: list[Any] = list(_json_lines(name, _decoded(name, data)))
    elif ending == ".json":
        items = _json_list(name, _decoded(name, data))
    elif ending == ".csv":
        items = _csv_rows(name, _decoded(name, data))
    elif ending == ".parquet":
        items = _parquet_rows(name, data)
    else:
        raise ConfigurationError(f"{name} must end in .jsonl, .json, .csv or .parquet")
    rows = []
    for number, item in enumerate(items, 1):
        place = f"{name}, record {number},"
        if not isinstance(item, dict):
            raise ConfigurationError(f"{place} is no JSON object")
        rows.append(Row(place, item))
    if not rows:
        raise ConfigurationError(f"{name} holds no record")
    return rows


def _decoded(name: str, data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{name} is no {encoding} text: {error.reason} at byte {error.start}"
        ) from None


def _json_lines(name: str, text: str) -> Iterator[Any]:
    # Not splitlines: JSON strings may hold U+2028 and other characters that it takes for line ends.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigurationError(f"{name}, line {number}, is no JSON: {error}") from None


def _json_list(name: str, text: str) -> list[Any]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name} is no JSON: {error}") from None
    if not isinstance(items, list):
        raise ConfigurationError(f"{name} must hold a list of records")
    return items


def _csv_rows(name: str, text: str) -> list[Any]:
    try:
        return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ConfigurationError(f"{name} is no CSV: {error}") from None


def _parquet_rows(name: str, data: bytes) -> list[Any]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "evals") from error
    try:
        items: list[Any] = pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    except pyarrow.ArrowException as error:
        raise ConfigurationError(f"{name} is no parquet file: {error}") from None
    return items
