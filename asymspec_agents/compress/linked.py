"""Which passages bear on a query: by their match, by their headings, and by links from better matches.

A question such as "where was the director of X born" names one passage and needs another one. So passages
are scored again by the names and numbers that the best of them mention and the query does not, twice: the
second time those that a first link found lead on. A heading that the query spells out, or that a better match
mentions, counts extra: it says what its passage is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .ranking import Ranker
from .terms import names_and_numbers, terms

__all__ = ["LinkedPassage", "linked_scores", "scaled"]

_NUM_BRIDGES = 3  # passages that lead on after each scoring; twice as many after the second
_NUM_ROUNDS = 2
_ROUND_WEIGHT = 0.7  # of a second link against a first one
_BRIDGE_WEIGHT = 1.0
_HEADING_WEIGHT = 2.0
_NAMED_WEIGHT = 0.5
_SHORTEST_HEADING = 6  # characters with the blanks around them: a letter or two name nothing


@dataclass(frozen=True, slots=True)
class LinkedPassage:
    """A passage's headings, each as text, its whole text, and the terms of that."""

    headings: tuple[str, ...]
    text: str
    terms: Sequence[str]


def linked_scores(
    ranker: Ranker, passages: Sequence[LinkedPassage], query: str, wanted: Sequence[str]
) -> tuple[list[float], list[str]]:
    """A score in [0, 1] for each passage, and the terms of names by which the best ones lead on.

    All scores are 0 where nothing matches a wanted term. A term stands among the names once for each of the
    best passages that mention it.
    """
    ranking = ranker.rank([passage.terms for passage in passages])
    headings = [_folded_headings(passage) for passage in passages]
    asked = _folded(terms(query))
    matches = ranking.scores(wanted)
    if not any(matches):
        return matches, []
    for index, names in enumerate(headings):
        if any(name in asked for name in names):
            matches[index] += _HEADING_WEIGHT
    matches = scaled(matches)
    scores, led_on = matches, set[int]()
    for number in range(_NUM_ROUNDS):
        linked = list(scores)
        for bridge in _best(scores, _NUM_BRIDGES * (number + 1)):
            if bridge in led_on:
                continue
            led_on.add(bridge)
            told = _folded(passages[bridge].terms)
            found = ranking.scores(_unasked(passages[bridge], wanted))
            found[bridge] = 0.0
            weight = scores[bridge] * _ROUND_WEIGHT**number
            for index, score in enumerate(scaled(found)):
                if index != bridge:
                    is_named = any(name in told for name in headings[index])
                    link = _BRIDGE_WEIGHT * score + _NAMED_WEIGHT * is_named
                    linked[index] = max(linked[index], matches[index] + weight * link)
        scores = scaled(linked)
    names = [name for index in _best(scores, _NUM_BRIDGES) for name in _unasked(passages[index], wanted)]
    return scores, names


def scaled(scores: list[float]) -> list[float]:
    """The scores as shares of the best one, rounded so that equal ones tie; as they are where all are 0."""
    best = max(scores, default=0.0)
    return [round(score / best, 6) for score in scores] if best > 0 else scores


def _best(scores: Sequence[float], num: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: -scores[index])[:num]


def _unasked(passage: LinkedPassage, wanted: Sequence[str]) -> list[str]:
    return sorted(set(terms(names_and_numbers(passage.text))).difference(wanted))


def _folded(words: Sequence[str]) -> str:
    """Terms as one string in which another one's can be looked up."""
    return f" {' '.join(words)} "


def _folded_headings(passage: LinkedPassage) -> list[str]:
    """The headings as they would stand in a folded text, without what brackets add to a title."""
    names = (_folded(terms(heading.split(" (")[0])) for heading in passage.headings)
    return [name for name in names if len(name) >= _SHORTEST_HEADING]
