"""A search over passages: BM25, the same answer to the same query on every machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from asymspec_agents.compress.ranking import Bm25Ranker, Ranking
from asymspec_agents.compress.terms import query_terms, term_lists

__all__ = ["PassageIndex", "passages_of"]

_PASSAGE = re.compile(r"^Passage \d+:[ \t]*\n", re.M)


def passages_of(context: str) -> tuple[str, ...]:
    """The passages of a LongBench context (`Passage 1:` and so on, title first), without their numbers.

    A context without such headings is one passage; an empty one has none.
    """
    starts = [match.span() for match in _PASSAGE.finditer(context)]
    if not starts:
        return (context.strip(),) if context.strip() else ()
    ends = [start for start, _ in starts[1:]] + [len(context)]
    texts = (context[begin:end].strip() for (_, begin), end in zip(starts, ends, strict=True))
    return tuple(text for text in texts if text)


class PassageIndex:
    """Passages, each once, in the order given; the index is made at the first search.

    Raises MissingDependencyError where bm25s is not installed.
    """

    def __init__(self, passages: Sequence[str]) -> None:
        self.passages = tuple(dict.fromkeys(passages))

    def search(self, query: str, num: int) -> tuple[str, ...]:
        """The best `num` passages, best first, ties in the passages' order; none where no word fits."""
        wanted = query_terms(query)
        if not wanted or not self.passages:
            return ()
        scores = self._ranking.scores(wanted)
        best = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:num]
        return tuple(self.passages[index] for index in best if scores[index] > 0)

    @cached_property
    def _ranking(self) -> Ranking:
        return Bm25Ranker().rank(term_lists(self.passages))
