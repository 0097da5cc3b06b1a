"""One JSON value cut down to a number of characters, every place where something was left out marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .cuts import is_grapheme_boundary
from .json_leaves import Leaves
from .json_tree import JsonObject, JsonValue, Literal, Unread, one_line, read, text_of, write
from .ranking import Ranker
from .rows import Columns, describe, keeping_order, row_scores

__all__ = ["MIN_ROOM", "Shrinker", "marker_key"]

MIN_ROOM = 16  # characters below which nothing of a value is kept
_MIN_ENTRIES = 4  # a container's room is shared by at least so many entries
_MIN_STRING = 24  # characters of a string worth keeping beside its marker
_GAP_CHARACTERS = 26
_MAX_MISSES = 20
_MIN_DESCRIBED = 8  # rows of an array whose columns are summed up
_ROWS_SHARE = 0.9  # of an array's items that are objects where it is rows
_MAX_ODD = 4
_SUMMARY_SHARE = 4  # a summary takes at most one part in so many of its array's room

_CELLS = json.JSONDecoder(parse_int=str, parse_float=str)


def marker_key(pairs: Sequence[tuple[str, JsonValue]]) -> str:
    """A key for a marker: `…`, or longer where the object has that key already."""
    key, taken = "…", {key for key, _ in pairs}
    while key in taken:
        key += "…"
    return key


@dataclass(frozen=True, slots=True)
class _Known:
    """What shrinking a container again would find out anew; the value, so that its id stays its own."""

    value: object
    result: Any


@dataclass(frozen=True, slots=True)
class Shrinker:
    """Shortens values; what it finds out about one is kept for the next attempt, for as long as it lives."""

    ranker: Ranker
    wanted: list[str]
    leaves: Leaves | None = None
    _sizes: dict[int, _Known] = field(default_factory=dict)
    _read: dict[int, _Known] = field(default_factory=dict)
    _orders: dict[int, _Known] = field(default_factory=dict)
    _columns: dict[int, _Known] = field(default_factory=dict)

    def shrink(self, value: JsonValue, room: int) -> JsonValue:
        """The value itself where it fits `room` characters, else a shorter one of about that size."""
        if self.size(value) <= room or isinstance(value, bool) or value is None:
            return value
        if isinstance(value, Unread):
            known = self._read.get(id(value))
            if known is None:
                known = self._read[id(value)] = _Known(value, read(value))
            value = known.result
            if self.size(value) <= room:
                return value
        if isinstance(value, Literal):
            return value if len(value) <= 40 else f"… a number of {len(value):,} characters …"
        if isinstance(value, str):
            made = self.leaves.shorten(value, room) if self.leaves else None
            return made or _shorten_string(value, room)
        if isinstance(value, JsonObject):
            return JsonObject(self._shrink_pairs(value.pairs, room))
        return self._shrink_array(value, room) if isinstance(value, list) else value

    def size(self, value: JsonValue) -> int:
        """Characters of the value's compact form, nearly."""
        if isinstance(value, Literal):
            return len(value)
        if isinstance(value, str):
            return len(value) + 2
        if isinstance(value, bool) or value is None:
            return 4
        if isinstance(value, Unread) and "\n" not in value.source:
            return len(value.source)
        known = self._sizes.get(id(value))
        if known is None:
            known = self._sizes[id(value)] = _Known(value, self._measured(value))
        return int(known.result)

    def _measured(self, value: Unread | JsonObject | list[JsonValue]) -> int:
        if isinstance(value, Unread):
            return len(one_line(value.source))
        if isinstance(value, JsonObject):
            return sum(len(key) + 4 + self.size(item) for key, item in value.pairs) + 1
        return sum(1 + self.size(item) for item in value) + 1

    def _shrink_pairs(self, pairs: list[tuple[str, JsonValue]], room: int) -> list[tuple[str, JsonValue]]:
        overheads = [len(key) + 4 for key, _ in pairs]
        needs = [overhead + self.size(item) for overhead, (_, item) in zip(overheads, pairs, strict=True)]
        floors = [min(need, overhead + MIN_ROOM) for need, overhead in zip(needs, overheads, strict=True)]
        if sum(floors) <= room:
            allowed = dict(enumerate(_share(needs, room)))
        else:
            allowed = _choose(self._order(pairs), needs, room - _GAP_CHARACTERS)
        kept: list[tuple[str, JsonValue]] = [
            (key, self.shrink(item, allowed[index] - overheads[index]))
            for index, (key, item) in enumerate(pairs)
            if index in allowed
        ]
        num_dropped = len(pairs) - len(kept)
        if num_dropped:
            noun = "key" if num_dropped == 1 else "keys"
            kept.append((marker_key(pairs), f"{num_dropped:,} more {noun}"))
        return kept

    def _shrink_array(self, items: list[JsonValue], room: int) -> list[JsonValue]:
        needs = [1 + self.size(item) for item in items]
        if len(items) <= _MIN_ENTRIES and room >= len(items) * MIN_ROOM:
            allowed, summary = dict(enumerate(_share(needs, room))), ""
        else:
            summary = self._described(items).summary
            if len(summary) > room // _SUMMARY_SHARE:
                summary = ""
            allowed = _choose(self._order(items), needs, room - _GAP_CHARACTERS - len(summary))
        gaps = _gaps(len(items), allowed)
        widest = max(gaps, key=lambda start: gaps[start], default=None)
        shrunk: list[JsonValue] = []
        for index, item in enumerate(items):
            if index in gaps:
                of_all = f"; of all {len(items):,}: {summary}" if summary and index == widest else ""
                noun = "item" if gaps[index] == 1 else "items"
                shrunk.append(f"… {gaps[index]:,} {noun} left out{of_all} …")
            if index in allowed:
                shrunk.append(self.shrink(item, allowed[index] - 1))
        return shrunk

    def _order(self, entries: Sequence[Any]) -> list[int]:
        """The order in which an array's items or an object's pairs are kept."""
        known = self._orders.get(id(entries))
        if known is None:
            is_object = bool(entries) and isinstance(entries[0], tuple)
            texts = [
                " ".join([entry[0], *text_of(entry[1])] if is_object else text_of(entry)) for entry in entries
            ]
            scores = row_scores(self.ranker, texts, self.wanted)
            outliers = [] if is_object else self._described(entries).outliers
            known = _Known(entries, keeping_order(len(entries), scores, outliers))
            self._orders[id(entries)] = known
        order: list[int] = known.result
        return order

    def _described(self, items: Sequence[JsonValue]) -> Columns:
        """The columns of an array of objects, in which others stand out; nothing of any other."""
        known = self._columns.get(id(items))
        if known is None:
            rows = [
                index
                for index, item in enumerate(items)
                if isinstance(item, JsonObject) or (isinstance(item, Unread) and item.source[0] == "{")
            ]
            columns = Columns("", [])
            if len(rows) >= max(_MIN_DESCRIBED, _ROWS_SHARE * len(items)):
                columns = describe([_cells(items[index]) for index in rows])
                odd = sorted(set(range(len(items))).difference(rows))[:_MAX_ODD]
                columns = Columns(columns.summary, [*odd, *(rows[index] for index in columns.outliers)])
            known = self._columns[id(items)] = _Known(items, columns)
        result: Columns = known.result
        return result


def _cells(item: JsonValue) -> dict[str, object]:
    source = item.source if isinstance(item, Unread) else write(item)
    cells: dict[str, object] = _CELLS.raw_decode(source)[0]
    return cells


def _choose(order: Sequence[int], needs: Sequence[int], room: int) -> dict[int, int]:
    """Room for each entry that is kept, by index."""
    largest = max(room // _MIN_ENTRIES, MIN_ROOM)
    allowed: dict[int, int] = {}
    misses = 0
    for index in order:
        cost = min(needs[index], largest)
        # An entry apart from those kept needs a marker of its own for the gap.
        is_apart = index - 1 not in allowed and index + 1 not in allowed
        if cost + _GAP_CHARACTERS * is_apart <= room:
            allowed[index] = cost
            room -= cost + _GAP_CHARACTERS * is_apart
        else:
            misses += 1
        if misses > _MAX_MISSES or room < MIN_ROOM:
            break
    return allowed


def _gaps(num_items: int, kept: dict[int, int]) -> dict[int, int]:
    """How many items are left out from each index on at which a gap begins."""
    gaps: dict[int, int] = {}
    end = 0
    for index in (*sorted(kept), num_items):
        if index > end:
            gaps[end] = index - end
        end = index + 1
    return gaps


def _share(needs: list[int], room: int) -> list[int]:
    """Room for each need: the small ones whole, the rest in equal parts."""
    shares = [0] * len(needs)
    for rank, index in enumerate(sorted(range(len(needs)), key=lambda i: needs[i])):
        shares[index] = min(needs[index], room // (len(needs) - rank))
        room -= shares[index]
    return shares


def _shorten_string(text: str, room: int) -> str:
    marker = f" [… {len(text):,} characters …] "
    kept = room - len(marker)
    if kept < _MIN_STRING:
        marker = marker.strip()
        return marker if len(marker) < len(text) else text
    head = kept * 2 // 3
    tail = len(text) - (kept - head)
    while not is_grapheme_boundary(text, head):
        head -= 1
    while not is_grapheme_boundary(text, tail):
        tail += 1
    return f"{text[:head]} [… {tail - head:,} characters …] {text[tail:]}"
