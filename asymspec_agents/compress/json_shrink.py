"""One JSON value cut down to a number of characters, every place where something was left out marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cuts import is_grapheme_boundary
from .json_tree import JsonObject, JsonValue, Literal, text_of
from .ranking import Ranker, preference, relevance

__all__ = ["MIN_ROOM", "Shrinker", "marker_key"]

MIN_ROOM = 16  # characters below which nothing of a value is kept
_MIN_ENTRIES = 4  # a container's room is shared by at least so many entries
_MIN_STRING = 24  # characters of a string worth keeping beside its marker
_GAP_CHARACTERS = 26
_MAX_MISSES = 20


def marker_key(pairs: Sequence[tuple[str, JsonValue]]) -> str:
    """A key for a marker: `…`, or longer where the object has that key already."""
    key, taken = "…", {key for key, _ in pairs}
    while key in taken:
        key += "…"
    return key


@dataclass(frozen=True, slots=True)
class Shrinker:
    """Shortens values whose container sizes are known (see `json_tree.sizes`)."""

    container_sizes: dict[int, int]
    ranker: Ranker
    wanted: list[str]

    def shrink(self, value: JsonValue, room: int) -> JsonValue:
        """The value itself where it fits `room` characters, else a shorter one of about that size."""
        if self._size(value) <= room or isinstance(value, bool) or value is None:
            return value
        if isinstance(value, Literal):
            return value if len(value) <= 40 else f"… a number of {len(value):,} characters …"
        if isinstance(value, str):
            return _shorten_string(value, room)
        if isinstance(value, JsonObject):
            return JsonObject(self._shrink_pairs(value.pairs, room))
        return self._shrink_array(value, room)

    def _size(self, value: JsonValue) -> int:
        if isinstance(value, str):
            return len(value) + 2
        return self.container_sizes.get(id(value), 4)

    def _shrink_pairs(self, pairs: list[tuple[str, JsonValue]], room: int) -> list[tuple[str, JsonValue]]:
        overheads = [len(key) + 4 for key, _ in pairs]
        needs = [overhead + self._size(item) for overhead, (_, item) in zip(overheads, pairs, strict=True)]
        floors = [min(need, overhead + MIN_ROOM) for need, overhead in zip(needs, overheads, strict=True)]
        if sum(floors) <= room:
            allowed = dict(enumerate(_share(needs, room)))
        else:
            allowed = self._choose(
                [[key, *text_of(item)] for key, item in pairs], needs, room - _GAP_CHARACTERS
            )
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
        needs = [1 + self._size(item) for item in items]
        if len(items) <= _MIN_ENTRIES and room >= len(items) * MIN_ROOM:
            allowed = dict(enumerate(_share(needs, room)))
        else:
            allowed = self._choose([list(text_of(item)) for item in items], needs, room - _GAP_CHARACTERS)
        shrunk: list[JsonValue] = []
        dropped = 0
        for index, item in enumerate(items):
            if index not in allowed:
                dropped += 1
                continue
            shrunk += _gap(dropped)
            dropped = 0
            shrunk.append(self.shrink(item, allowed[index] - 1))
        return shrunk + _gap(dropped)

    def _choose(self, texts: list[list[str]], needs: list[int], room: int) -> dict[int, int]:
        """Room for each entry that is kept, by index."""
        scores = relevance(self.ranker, [" ".join(parts) for parts in texts], self.wanted)
        largest = max(room // _MIN_ENTRIES, MIN_ROOM)
        allowed: dict[int, int] = {}
        misses = 0
        for index in preference(len(texts), scores):
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


def _gap(num_items: int) -> list[JsonValue]:
    if not num_items:
        return []
    return [f"… {num_items:,} {'item' if num_items == 1 else 'items'} left out …"]


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
