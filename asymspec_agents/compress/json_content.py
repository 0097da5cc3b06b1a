"""JSON and JSON lines made shorter and still valid: every place where something was left out says so.

Whole values are kept where they fit. Where not, the room is shared out among a container's entries, small
ones first; long strings are shortened as the text they are, arrays and big objects keep the entries that
match the query, the first and the last. Nothing that stays is rewritten: keys, order and number literals are
those of the original.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Compressor, ContentKind, Rendition
from .headtail import HeadTail
from .json_broken import mend, mended_lines
from .json_leaves import Leaves
from .json_shrink import MIN_ROOM, Shrinker, marker_key
from .json_tree import JsonObject, JsonValue, Literal, parse, quote, write
from .marker import left_out, short_reference
from .ranking import Ranker, default_ranker
from .terms import query_terms

__all__ = ["JsonContent", "JsonLines"]

_NUM_ATTEMPTS = 7
_FULL_ENOUGH = 0.92  # of the target: no further attempt is made


@dataclass(frozen=True, slots=True)
class JsonContent:
    """Shortens one JSON document; the rendition is JSON with at most the target's tokens.

    A marker with size and reference is the last entry of the outermost container. Where not even that fits,
    the rendition is the marker as a JSON string. Text that is nearly JSON (cut off, broken in places, a
    Python literal) is read as far as it goes and the marker says so; text that is none, or is nested over 100
    deep, gets the head/tail rendition. `leaf` shortens long strings; without it they lose their middle.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)
    leaf: Compressor | None = None

    @property
    def configuration(self) -> str:
        return f"json/3({_parts(self.ranker, self.fallback, self.leaf)})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`; white space between values alone is dropped unmarked."""
        num_tokens = counter.count(text)
        if num_tokens <= target_tokens:
            return Rendition(text, "json", "json")
        note = ""
        try:
            value = parse(text)
        except ValueError:
            try:
                mended = mend(text)
            except ValueError:
                return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
            value, note = mended.value, mended.note
        shrinker = _shrinker(self.ranker, self.leaf, query, counter)
        shortened = _shorten(text, num_tokens, value, note, write, target_tokens, counter, shrinker)
        return Rendition(shortened, "json", "json")


@dataclass(frozen=True, slots=True)
class JsonLines:
    """Shortens JSON lines; each line of the rendition is JSON, markers are lines that are strings, and so is
    what stands for a line that is no JSON."""

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)
    leaf: Compressor | None = None

    @property
    def configuration(self) -> str:
        return f"json_lines/3({_parts(self.ranker, self.fallback, self.leaf)})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        kind: ContentKind = "json_lines"
        num_tokens = counter.count(text)
        if num_tokens <= target_tokens:
            return Rendition(text, "json_lines", kind)
        mended = mended_lines(text)
        rows = mended.value
        if isinstance(rows, list) and all(isinstance(row, str) for row in rows):
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        shrinker = _shrinker(self.ranker, self.leaf, query, counter)
        shortened = _shorten(
            text, num_tokens, rows, mended.note, _write_lines, target_tokens, counter, shrinker
        )
        return Rendition(shortened, "json_lines", kind)


def _parts(ranker: Ranker, fallback: HeadTail, leaf: Compressor | None) -> str:
    leaf_configuration = leaf.configuration if leaf else "none"
    return f"ranker={ranker.configuration},fallback={fallback.configuration},leaf={leaf_configuration}"


def _shrinker(ranker: Ranker, leaf: Compressor | None, query: str, counter: TokenCounter) -> Shrinker:
    return Shrinker(ranker, query_terms(query), Leaves(leaf, query, counter) if leaf else None)


def _write_lines(rows: JsonValue) -> str:
    return "\n".join(map(write, rows)) if isinstance(rows, list) else write(rows)


def _shorten(
    text: str,
    num_tokens: int,
    value: JsonValue,
    note: str,
    writer: Callable[[JsonValue], str],
    target_tokens: int,
    counter: TokenCounter,
    shrinker: Shrinker,
) -> str:
    compact = writer(_with_marker(value, note) if note else value)
    compact_tokens = num_tokens
    if len(compact) * num_tokens <= 2 * target_tokens * len(text):  # else it is far from fitting
        compact_tokens = counter.count(compact)
    if compact_tokens <= target_tokens:
        return compact
    reference = short_reference(text)
    smallest = quote(left_out(len(text), reference))
    marker_tokens = counter.count(note + smallest) + 6
    per_token = len(compact) / compact_tokens  # a first guess
    best, room = "", int((target_tokens - marker_tokens) * per_token)
    too_much = len(compact)
    for _ in range(_NUM_ATTEMPTS):
        if room < MIN_ROOM or room >= too_much:
            break
        shrunk = shrinker.shrink(value, room)
        marker = left_out(max(len(compact) - len(writer(shrunk)), 1), reference)
        marker = f"{note} {marker}" if note else marker
        attempt = writer(_with_marker(shrunk, marker))
        shrunk_tokens = counter.count(attempt)
        if shrunk_tokens > target_tokens:
            too_much = room
            room = int(room * min(0.95, 0.97 * target_tokens / shrunk_tokens))
            continue
        best = max(best, attempt, key=len)
        if shrunk_tokens >= _FULL_ENOUGH * target_tokens:
            break
        room = min(int(room * min(0.97 * target_tokens / shrunk_tokens, 2.0)) + 1, (room + too_much) // 2)
    if best:
        return best
    if counter.count(smallest) < compact_tokens:
        return smallest
    return min(compact, text, key=counter.count)


def _with_marker(value: JsonValue, marker: str) -> JsonValue:
    if isinstance(value, JsonObject):
        return JsonObject([*value.pairs, (marker_key(value.pairs), marker)])
    if isinstance(value, list):
        return [*value, marker]
    return f"{value} {marker}" if isinstance(value, str) and not isinstance(value, Literal) else marker
