"""Rows of a release's table: Parquet, JSON or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = ["read_column", "read_rows", "required"]

SUFFIXES = (".parquet", ".json", ".jsonl")


def read_rows(path: Path, *, without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows in their order; of a JSON object whose values are rows, the values. Columns may be left out.

    Raises ConfigurationError naming the file, and the line where there are lines.
    """
    if path.suffix == ".parquet":
        table = _opened(path)
        names = [name for name in table.schema_arrow.names if name not in without]
        rows = table.read(columns=names).to_pylist()
    elif path.suffix == ".jsonl":
        lines = _text(path).splitlines()
        rows = [_parsed(path, line, number) for number, line in enumerate(lines, 1) if line.strip()]
    elif path.suffix == ".json":
        parsed = _parsed(path, _text(path), None)
        rows = list(parsed.values()) if isinstance(parsed, Mapping) else parsed
    else:
        raise ConfigurationError(f"{path}: rows are read from {', '.join(SUFFIXES)} files")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigurationError(f"{path} holds no rows: a list of objects is wanted")
    return [{name: value for name, value in row.items() if name not in without} for row in rows]


def read_column(path: Path, key: str, name: str) -> dict[str, Any]:
    """One column of a Parquet file by another one's values, as strings; empty where the column is absent."""
    table = _opened(path)
    if not {key, name} <= set(table.schema_arrow.names):
        return {}
    return {str(row[key]): row[name] for row in table.read(columns=[key, name]).to_pylist()}


def required(row: Mapping[str, Any], name: str, place: str) -> Any:
    """A field that must be there; raises ConfigurationError naming `place` and the field."""
    if row.get(name) is None:
        raise ConfigurationError(f"{place} has no {name!r}; is it the official release?")
    return row[name]


def _opened(path: Path) -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "evals") from error
    try:
        return parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ConfigurationError(f"{path} cannot be read as Parquet: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def _parsed(path: Path, text: str, line: int | None) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        place = f"{path}, line {line}," if line is not None else str(path)
        raise ConfigurationError(f"{place} is no JSON: {error}") from error
