"""A view's recorded messages as the page may rely on them: a trace from elsewhere may hold anything.

Whatever has not the form of `views.recorded` is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["checked_messages"]

_TEXTS = ("digest", "shown_digest", "type", "tier", "compressor", "name")
_COUNTS = ("num_chars", "num_shown_chars", "tokens", "shown_tokens")


def checked_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with every field of the right type, or left out; their number stays."""
    checked = [_message(message) for message in messages]
    for message in checked:
        place = message.get("result_of")
        if place is not None and not _is_call(place, checked):
            del message["result_of"]
    return checked


def _is_call(place: list[int], messages: list[dict[str, Any]]) -> bool:
    return place[0] < len(messages) and place[1] < len(messages[place[0]].get("calls", ()))


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"role": str(message.get("role", "?"))}
    found |= _fields(message, ("name", "kind", "tool"), ("turn",), ("is_left_out", "is_added"))
    found["parts"] = [_part(part) for part in _mappings(message.get("parts"))]
    calls = [_fields(call, ("name", "digest"), ("num_chars",)) for call in _mappings(message.get("calls"))]
    if calls:
        found["calls"] = calls
    place = message.get("result_of")
    if isinstance(place, list) and len(place) == 2 and all(map(_is_count, place)):
        found["result_of"] = place
    return found


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    found = _fields(part, _TEXTS, _COUNTS, ("degraded",))
    cut = part.get("cut")
    if isinstance(cut, Mapping):
        found["cut"] = _fields(cut, ("compressor",), ("tokens",))
    return found


def _fields(
    data: Mapping[str, Any], texts: Iterable[str], counts: Iterable[str], flags: Iterable[str] = ()
) -> dict[str, Any]:
    found: dict[str, Any] = {name: data[name] for name in texts if isinstance(data.get(name), str)}
    found |= {name: data[name] for name in counts if _is_count(data.get(name))}
    return found | {name: True for name in flags if data.get(name) is True}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
