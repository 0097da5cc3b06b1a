"""Relevance of pieces of text to a query: BM25 (Robertson et al., 1994) by the library bm25s."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import MissingDependencyError

__all__ = ["Bm25Ranker", "NoRanker", "Ranker", "Ranking", "default_ranker", "preference"]


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
        if importlib.util.find_spec("bm25s") is None:
            raise MissingDependencyError("bm25s", "compress")

    @property
    def configuration(self) -> str:
        import bm25s

        return f"bm25s-{bm25s.__version__}(lucene,k1=1.5,b=0.75)"

    def rank(self, documents: Sequence[Sequence[str]]) -> Ranking:
        import bm25s

        ids: dict[str, int] = {}
        numbered = [[ids.setdefault(term, len(ids)) for term in document] for document in documents]
        if not ids:
            return _Bm25Ranking(None, ids, len(documents))
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
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
    return NoRanker() if importlib.util.find_spec("bm25s") is None else Bm25Ranker()


def preference(num_entries: int, scores: Sequence[float]) -> list[int]:
    """The order in which entries are kept: the best match, the first, the last, other matches, the rest."""
    matches = sorted((i for i in range(num_entries) if scores[i] > 0), key=lambda i: -scores[i])
    order = [*matches[:1], 0, num_entries - 1, *matches[1:], *range(num_entries)]
    return list(dict.fromkeys(order))
