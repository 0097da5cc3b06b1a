"""From the words that stay to a text, and the most of them that fit a number of tokens.

The rendition is the kept words and protected spans as the original has them, in its order. Between neighbours
stands what stood there, where it was white space only; else a blank, a line break or an empty line, as the
text left out had. A marker at the end tells size and reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ...tokens import TokenCounter
from ..cuts import longest_fit
from ..marker import left_out, short_reference
from ..segments import Span
from .protection import Protected
from .words import Places

__all__ = ["fit", "least_tokens", "named_spans", "widened", "write"]

MAX_BLANK = 40  # characters of white space between neighbours that are kept as they are
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n|\r[^\S\r\n]*\r")


def named_spans(protected: Protected, text: str) -> list[Span]:
    """What `protected` names in `text`, in order and joined."""
    named = (Span(max(start, 0), min(end, len(text))) for start, end in protected(text))
    return _merged(span for span in named if span.start < span.end)


def least_tokens(text: str, spans: Sequence[Span], counter: TokenCounter) -> int:
    """Tokens of a rendition that has only these spans of `text`, or the marker alone."""
    reference = short_reference(text)
    return counter.count(write(text, spans, reference) or left_out(len(text), reference))


def widened(spans: Sequence[Span], words: Places) -> list[Span]:
    """Spans (in order, apart) widened to the whole words they touch; in order, joined."""
    return _merged([*spans, *words.touching(spans)])


def fit(
    text: str,
    kept_at: Callable[[int], Iterable[Span]],
    num_steps: int,
    protected: Sequence[Span],
    *,
    target_tokens: int,
    counter: TokenCounter,
) -> str | None:
    """The longest rendition (within 2% of the target) that fits, or None where none that says anything does.

    `kept_at(step)` are the words that stay, for steps from 0 (fewest) to `num_steps` (all or nearly), in any
    order and with overlaps; `protected` spans stay at every step.
    """
    num_tokens = counter.count(text)
    reference = short_reference(text)
    if counter.count(left_out(len(text), reference)) >= target_tokens:
        return None
    best_step, best = -1, None

    def measure(step: int) -> int:
        nonlocal best_step, best
        if step == num_steps:
            return num_tokens
        made = write(text, [*kept_at(step), *protected], reference)
        made_tokens = counter.count(made) if made is not None else 0
        if made_tokens <= target_tokens and step > best_step:
            best_step, best = step, made
        return made_tokens

    if longest_fit(measure, num_steps, target_tokens) == 0:
        measure(0)
    return best


def write(text: str, kept: Iterable[Span], reference: str) -> str | None:
    """The kept pieces of `text` with a marker at the end; None where nothing is kept."""
    pieces: list[str] = []
    end = num_left_out = 0
    for span in _merged(kept):
        between = text[end : span.start]
        if between.strip():
            num_left_out += len(between)
        if pieces:
            pieces.append(_separator(between, text[end - 1], text[span.start]))
        pieces.append(text[span.start : span.end])
        end = span.end
    if not pieces:
        return None
    if text[end:].strip():
        num_left_out += len(text) - end
    if num_left_out:
        pieces.append("\n" + left_out(num_left_out, reference))
    return "".join(pieces)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same places as spans in order that neither overlap nor touch."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if span.start == span.end:
            continue
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _separator(between: str, before: str, after: str) -> str:
    is_blank = not between.strip()
    if is_blank and len(between) <= MAX_BLANK:
        return between
    if _EMPTY_LINE.search(between.replace("\r\n", "\n")):
        return "\n\n"
    if "\n" in between or "\r" in between:
        return "\n"
    if any(map(str.isspace, between)):
        return " "
    is_word = before.isalnum() and after.isalnum()
    return " " if is_word and not (_is_spaceless(before) and _is_spaceless(after)) else ""


def _is_spaceless(letter: str) -> bool:
    """Whether a letter's script sets no blanks between words: Thai and its neighbours, Kana, Han."""
    is_south_east = "\u0e00" <= letter <= "\u0fff" or "\u1000" <= letter <= "\u109f"
    is_khmer = "\u1780" <= letter <= "\u17ff"
    is_hangul = "\uac00" <= letter <= "\ud7ff"
    return is_south_east or is_khmer or (letter >= "\u2e80" and not is_hangul)
