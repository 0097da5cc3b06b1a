"""Records from files of JSON lines, in folders or inside of zip archives."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from ..unpacking import UNREADABLE

__all__ = ["Place", "json_lines"]

Place = Path | zipfile.Path


def json_lines(path: Place) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; empty lines are passed over. Raises ConfigurationError."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")  # a text's own line separators stay inside
    except (UnicodeDecodeError, *UNREADABLE) as error:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {error}") from error
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{path}, line {number} is no JSON: {error}") from error
        if not isinstance(record, dict):
            raise ConfigurationError(f"{path}, line {number} must be a JSON object")
        records.append(record)
    return records
