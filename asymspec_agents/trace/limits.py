"""How much a trace may hold: characters of a text, bytes of an event, bytes of a file, number of files."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from ..errors import ConfigurationError

__all__ = ["RecordLimits", "bounded_line"]

_KEPT = frozenset({"event", "timestamp_s", "request_id"})


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Bounds of a trace file; None is no bound.

    Of a text longer than `max_text_chars` both ends are kept around a note of what is missing. An event
    longer than `max_event_bytes` loses its largest fields, whose names go into `left_out`. A file that would
    grow beyond `max_file_bytes` is put aside, and at most `num_files` are kept, the current one included.
    """

    max_text_chars: int | None = 200_000
    max_event_bytes: int | None = 4_000_000
    max_file_bytes: int | None = None
    num_files: int = 5

    def __post_init__(self) -> None:
        lowest = {"max_text_chars": 100, "max_event_bytes": 1_000, "max_file_bytes": 10_000, "num_files": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name != "num_files":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest[field.name]:
                raise ConfigurationError(
                    f"{field.name}={value!r} must be an integer of at least {lowest[field.name]:,}"
                )


def bounded_line(data: dict[str, Any], limits: RecordLimits) -> bytes:
    """The event as a line of JSON, newline included, within the limits of texts and events."""
    if limits.max_text_chars is not None:
        data = _shortened(data, limits.max_text_chars)
    line = _line(data)
    longest = limits.max_event_bytes
    if longest is None or len(line) <= longest:
        return line
    left_out: list[str] = []
    sizes = {name: len(_line(value)) for name, value in data.items() if name not in _KEPT}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        left_out.append(name)
        kept = {key: value for key, value in data.items() if key not in left_out}
        line = _line(kept | {"left_out": left_out})
        if len(line) <= longest:
            return line
    raise ValueError(f"an event of {len(line):,} bytes, over max_event_bytes={longest:,}")


def _line(data: Any) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else _both_ends(value, longest)
    if isinstance(value, dict):
        return {key: _shortened(item, longest) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, longest) for item in value]
    return value


def _both_ends(text: str, longest: int) -> str:
    note = f"\n[… {len(text) - longest:,} characters were not recorded …]\n"
    half = longest // 2
    return text[:half] + note + text[len(text) - (longest - half) :]
