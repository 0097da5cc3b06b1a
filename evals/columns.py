"""Columns of Parquet files that are too large to be read whole, such as tables with images in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = ["read_columns"]


def read_columns(
    path: Path, only: Sequence[str] | None = None, *, without: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The records of a file with some of its columns: `only` these, or all but `without`.

    Raises ConfigurationError naming the file where it cannot be read.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "evals") from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = [
            name for name in file.schema_arrow.names if name not in without and (only is None or name in only)
        ]
        rows: list[dict[str, Any]] = file.read(columns=names).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigurationError(f"{path} cannot be read as Parquet: {error}") from error
    return rows
