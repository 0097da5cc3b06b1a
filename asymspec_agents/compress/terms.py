"""What a text is about, as terms to match: words, parts of identifiers, numbers, and character pairs where a
script has no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["names_and_numbers", "query_terms", "term_lists", "terms"]

# Scripts written without spaces: Thai, Lao, Burmese, Khmer, Kana, Han, and Hangul, whose particles stick to
# the word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_UNSPACED += "\uff66-\uff9f\U00020000-\U0003ffff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_IDENTIFIER_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A capital within a sentence; one that opens a sentence or line only where the next word has one, too.
_NAME_OR_NUMBER = re.compile(r"(?<=[\w,;’'–—)-] )[A-Z]\w+|\b[A-Z]\w+(?=[ -][A-Z])|\b[0-9]{3,}")
_MAX_QUERY_CHARACTERS = 40_000
_MAX_QUERY_TERMS = 512

_STOP_WORDS = re.findall(
    r"\w+",
    "a about all also an and any are as at be been but by can could did do does each every find for from get "
    "give given had has have he her him his how i if in into is it its just like list made make many may me "
    "much my name no not of on one only or other our out over please same she should show so some such tell "
    "than that the their them then there these they this those to two under up us use used using want was we "
    "were what when where whether which while who whom whose why will with would you your"
    " ",
)


def terms(text: str) -> list[str]:
    """The terms of `text` in order, case-folded; an English ending such as -s or -ing is cut off."""
    return term_lists((text,))[0]


def term_lists(texts: Iterable[str]) -> list[list[str]]:
    """The terms of each text: faster than one by one, since texts repeat their words."""
    known: dict[str, tuple[str, ...]] = {}
    found: list[list[str]] = []
    for text in texts:
        words: list[str] = []
        for run in _RUN.findall(text):
            parts = known.get(run)
            if parts is None:
                parts = known[run] = _split(run)
            words += parts
        found.append(words)
    return found


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query without English function words, in order.

    Of a long query (a task with its documents, say) only the first and last 20,000 characters are read.
    """
    if len(query) > _MAX_QUERY_CHARACTERS:
        query = f"{query[: _MAX_QUERY_CHARACTERS // 2]} {query[-_MAX_QUERY_CHARACTERS // 2 :]}"
    wanted = dict.fromkeys(term for term in terms(query) if term not in _STOP_TERMS)
    return list(wanted)[:_MAX_QUERY_TERMS]


def names_and_numbers(text: str) -> str:
    """The names and longer numbers of `text`: what leads from one passage to another.

    A name is a capitalised word, unless it opens a sentence or line and stands alone there.
    """
    return " ".join(_NAME_OR_NUMBER.findall(text))


def _split(run: str) -> tuple[str, ...]:
    if run[0] > "\u0dff" and re.match(f"[{_UNSPACED}]", run):
        return tuple(run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    parts = _IDENTIFIER_PART.findall(run)
    whole = _stem(run.casefold())
    if len(parts) < 2 or len(run) > 100:  # a longer run is data, not a name
        return (whole,)
    return (whole, *(_stem(part.lower()) for part in parts))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_STOP_TERMS = frozenset(map(_stem, _STOP_WORDS))
