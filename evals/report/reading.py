"""A run folder as a report needs it: the plan, and the last word on each sample and cell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asymspec_agents.errors import ConfigurationError

from ..records import Record

__all__ = ["Run", "read_run"]


@dataclass(frozen=True, slots=True)
class Run:
    """`plan` is run.json; `records` has one record a key."""

    plan: dict[str, Any]
    records: tuple[Record, ...]


def read_run(folder: Path) -> Run:
    """The run in a folder. The last record of a key counts; a torn last line is left out.

    Raises ConfigurationError where the folder holds no run, or a line that is no record.
    """
    try:
        plan = json.loads((folder / "run.json").read_text("utf-8"))
        lines = (folder / "records.jsonl").read_bytes().split(b"\n")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{folder} holds no run: {error}") from error
    records: dict[tuple[str, str, str], Record] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = Record.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines):  # no newline after it: it was being written
                continue
            raise ConfigurationError(f"{folder}/records.jsonl:{number} is no record: {error}") from error
        records[record.key] = record
    return Run(plan, tuple(records.values()))
