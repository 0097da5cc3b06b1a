"""A trace file read back: its events, and a note for every line that is none."""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8 as BOM
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from .events import KINDS, Event, OtherEvent, parse_event

__all__ = ["Trace", "read_trace"]


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a file, and a note for every line that is not, or not wholly, what it should be."""

    events: tuple[Event, ...]
    notes: tuple[str, ...] = ()


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """The events of a JSON-lines trace, in file order.

    Lines that are no event are left out and noted, such as a last line cut short when its writer died. Raises
    OSError where the file cannot be read.
    """
    events: list[Event] = []
    notes: list[str] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                event = parse_event(_json_object(line), is_json=True)
            except (ValueError, RecursionError) as error:  # pydantic's and json's errors are ValueErrors
                if line.endswith(b"\n"):
                    notes.append(f"line {number} is left out: {_reason(error)}")
                else:
                    notes.append(f"line {number}, the last, was cut short and is left out")
                continue
            if isinstance(event, OtherEvent) and event.event in KINDS:
                notes.append(f"line {number}: a malformed {event.event} event, not counted")
            events.append(event)
    return Trace(tuple(events), tuple(notes))


def _json_object(line: bytes) -> dict[str, Any]:
    data = json.loads(line.removeprefix(BOM).decode("utf-8"), parse_constant=str)  # NaN as recorders write it
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (
        "not JSON"
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)
        else str(error)
    )
