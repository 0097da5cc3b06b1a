"""Relevance of pieces of text to a query: BM25 (Robertson et al., 1994) by the library bm25s."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import MissingDependencyError
from .terms import term_lists

__all__ = [
    "Bm25Ranker",
    "NoRanker",
    "Ranker",
    "Ranking",
    "best_matches",
    "default_ranker",
    "preference",
    "relevance",
]

_MAX_RANKED = 4_000  # texts
_MAX_SOUGHT_TERMS = 64
_K1, _B = 1.5, 0.75


class Ranking(Protocol):
    """Documents ready to be scored."""

    def scores(self, query: Sequence[str]) -> list[float]:
        """One score in [0, 1] for each document, the best match 1; all 0 where nothing matches."""


class Ranker(Protocol):
    """Makes rankings. Invariants: pure, deterministic across processes, thread-safe."""

    @property
    def configuration(self) -> str:
        """Name, version and parameters: part of the configuration of compressors that use it."""

    def rank(self, documents: Sequence[Sequence[str]]) -> Ranking:
        """A ranking of documents given as terms."""


@dataclass(frozen=True, slots=True)
class _Bm25Ranking:
    index: Any  # bm25s.BM25, or None where no document has a term
    ids: dict[str, int]
    num_documents: int

    def scores(self, query: Sequence[str]) -> list[float]:
        ids = [self.ids[term] for term in query if term in self.ids]
        if not ids:
            return [0.0] * self.num_documents
        found = [float(score) for score in self.index.get_scores_from_ids(ids)]
        # Rounded, so that equal matches tie whatever the order in which floats were added.
        best = max(found)
        return [round(score / best, 6) for score in found] if best > 0 else [0.0] * self.num_documents


@dataclass(frozen=True, slots=True)
class Bm25Ranker:
    """Ranks by BM25 (Lucene's variant, k1=1.5, b=0.75). Raises MissingDependencyError without bm25s."""

    def __post_init__(self) -> None:
        try:  # being there is not enough: it may lack what it needs itself
            import bm25s  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError("bm25s", "compress") from error

    @property
    def configuration(self) -> str:
        import bm25s

        return f"bm25s-{bm25s.__version__}(lucene,k1={_K1},b={_B},most={_MAX_RANKED})"

    def rank(self, documents: Sequence[Sequence[str]]) -> Ranking:
        import bm25s

        ids: dict[str, int] = {}
        numbered = [[ids.setdefault(term, len(ids)) for term in document] for document in documents]
        if not ids:
            return _Bm25Ranking(None, ids, len(documents))
        index = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        # A vocabulary of our own keeps the result free of the order in which sets are walked.
        index.index((numbered, dict(ids)), create_empty_token=False, show_progress=False)
        return _Bm25Ranking(index, ids, len(documents))


@dataclass(frozen=True, slots=True)
class _NoRanking:
    num_documents: int

    def scores(self, query: Sequence[str]) -> list[float]:
        return [0.0] * self.num_documents


@dataclass(frozen=True, slots=True)
class NoRanker:
    """Finds nothing relevant: compressors keep what their kind makes important (first and last rows, say)."""

    @property
    def configuration(self) -> str:
        return "none"

    def rank(self, documents: Sequence[Sequence[str]]) -> Ranking:
        return _NoRanking(len(documents))


def default_ranker() -> Ranker:
    """BM25 where the extra `compress` is installed, else no ranking."""
    try:
        return Bm25Ranker()
    except MissingDependencyError:
        return NoRanker()


def relevance(ranker: Ranker, texts: Sequence[str], wanted: Sequence[str]) -> list[float]:
    """The score in [0, 1] of each text against the wanted terms.

    Of more than 4,000 texts the best matches by a count of the terms are ranked, the others score 0.
    """
    if not wanted or isinstance(ranker, NoRanker):
        return [0.0] * len(texts)
    ranked: Sequence[int] = range(len(texts))
    if len(texts) > _MAX_RANKED:
        ranked = best_matches(texts, wanted, _MAX_RANKED)
    found = ranker.rank(term_lists(texts[index] for index in ranked)).scores(wanted)
    scores = [0.0] * len(texts)
    for index, score in zip(ranked, found, strict=True):
        scores[index] = score
    return scores


def best_matches(texts: Sequence[str], wanted: Sequence[str], num: int) -> list[int]:
    """The indices, in order, of the `num` texts that a rough BM25 puts first; none where nothing matches.

    Where fewer match, those next to them are among them.

    Terms are counted wherever they stand, within words too, so no text has to be split: a sieve for very many
    texts. Of a long query the first 64 terms are sought.
    """
    folded = [text.casefold() for text in texts]
    mean_length = max(1.0, sum(map(len, folded)) / max(1, len(folded)))
    norms = [_K1 * (1 - _B + _B * len(text) / mean_length) for text in folded]
    scores = [0.0] * len(folded)
    for term in wanted[:_MAX_SOUGHT_TERMS]:
        held = [(index, text.count(term)) for index, text in enumerate(folded) if term in text]
        weight = math.log(1 + (len(folded) - len(held) + 0.5) / (len(held) + 0.5))
        for index, count in held:
            scores[index] += weight * count / (count + norms[index])
    chosen = sorted(
        sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])[:num]
    )
    return _widened(chosen, num, len(folded)) if chosen else []


def _widened(chosen: Sequence[int], num: int, num_all: int) -> list[int]:
    """The chosen indices with as many on either side of each as there is room for."""
    found = set(chosen)
    for distance in range(1, num_all):
        for index in chosen:
            for neighbour in (index - distance, index + distance):
                if len(found) >= num:
                    return sorted(found)
                if 0 <= neighbour < num_all:
                    found.add(neighbour)
    return sorted(found)


def preference(num_entries: int, scores: Sequence[float]) -> list[int]:
    """The order in which entries are kept: the best match, the first, the last, other matches, the rest."""
    matches = sorted((i for i in range(num_entries) if scores[i] > 0), key=lambda i: -scores[i])
    order = [*matches[:1], 0, num_entries - 1, *matches[1:], *range(num_entries)]
    return list(dict.fromkeys(order))
