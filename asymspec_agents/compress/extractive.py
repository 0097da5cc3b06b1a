"""Query-aware extraction: the sentences of a text that bear on the query, in their order, gaps marked.

Passages are scored against the query by BM25, and once more against the names and numbers that the best of
them mention and the query does not: the second step of a question such as "when was the director of X born".
A sentence's score is its passage's, plus its own, plus a bonus for opening a passage (where articles define
what they are about). The weights were chosen on the HotpotQA and MuSiQue records named in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .marker import left_out, short_reference
from .ranking import Bm25Ranker, Ranker, relevance
from .segments import Passage, Span, segment
from .terms import names_and_numbers, query_terms, terms

__all__ = ["Extractive"]

_GAP = "[…]"
_NUM_BRIDGES = 4
_BRIDGE_WEIGHT = 1.0
_HEADING_WEIGHT = 1.0
_SENTENCE_WEIGHT = 0.3
_NAMED_WEIGHT = 0.5
_OPENING_BONUS = 0.25
_NUM_FILLINGS = 4
_MAX_BRIDGED_PASSAGES = 2_000  # of longer texts, passages are scored by their match alone
_MAX_MISSES = 20  # candidates too long for what is left, before a filling ends
_MAX_BLANK = 40  # characters of white space between neighbours that are kept as they are


@dataclass(frozen=True, slots=True)
class _Candidate:
    score: float
    passage: int
    span: Span


@dataclass(frozen=True, slots=True)
class Extractive:
    """Keeps the sentences most relevant to the query, each under its passage's heading, up to the target.

    `[…]` stands at every gap and a marker with size and reference at the end. Without a query, or where no
    sentence shares a term with it, the rendition is the head and tail of the text.
    """

    ranker: Ranker = field(default_factory=Bm25Ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"extractive/1(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        num_tokens = counter.count(text)
        if num_tokens <= target_tokens:
            return Rendition(text, "extractive", "text")
        shortened = None
        if wanted := query_terms(query):
            passages = segment(text)
            candidates = self._candidates(text, passages, query, wanted)
            shortened = _extract(text, passages, candidates, target_tokens, counter)
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "extractive", "text")

    def _candidates(
        self, text: str, passages: list[Passage], query: str, wanted: list[str]
    ) -> list[_Candidate]:
        """Every sentence with its score, best first; none where the query matches nothing."""
        texts = [_passage_text(text, passage) for passage in passages]
        if len(passages) <= _MAX_BRIDGED_PASSAGES:
            passage_scores = self._bridged_scores(text, passages, texts, query, wanted)
        else:
            passage_scores = relevance(self.ranker, texts, wanted)
        if not any(passage_scores):
            return []
        sentences = [text[span.start : span.end] for passage in passages for span in passage.sentences]
        sentence_scores = iter(relevance(self.ranker, sentences, wanted))
        candidates = []
        for index, passage in enumerate(passages):
            for place, span in enumerate(passage.sentences):
                score = passage_scores[index] + _SENTENCE_WEIGHT * next(sentence_scores)
                candidates.append(_Candidate(score + _OPENING_BONUS * (place == 0), index, span))
        # Sorting is stable: of equal scores the earlier sentence comes first.
        return sorted(candidates, key=lambda candidate: -candidate.score)

    def _bridged_scores(
        self, text: str, passages: list[Passage], texts: list[str], query: str, wanted: list[str]
    ) -> list[float]:
        """A score in [0, 1] for each passage: its match, its heading's, and its links to the best matches."""
        ranking = self.ranker.rank([terms(passage) for passage in texts])
        scores = ranking.scores(wanted)
        headings = [_names(text, passage) for passage in passages]
        asked = _folded(query)
        for index, names in enumerate(headings):
            if any(name in asked for name in names):
                scores[index] += _HEADING_WEIGHT
        scores = _normal(scores)
        bridged = list(scores)
        for bridge in sorted(range(len(passages)), key=lambda index: -scores[index])[:_NUM_BRIDGES]:
            told = _folded(texts[bridge])
            unasked = set(terms(names_and_numbers(texts[bridge]))).difference(wanted)
            found = ranking.scores(sorted(unasked))
            found[bridge] = 0.0
            for index, score in enumerate(_normal(found)):
                if index != bridge:
                    is_named = any(name in told for name in headings[index])
                    link = _BRIDGE_WEIGHT * score + _NAMED_WEIGHT * is_named
                    bridged[index] = max(bridged[index], scores[index] + scores[bridge] * link)
        return _normal(bridged)


def _folded(text: str) -> str:
    """The terms of a text as one string in which another one's can be looked up."""
    return f" {' '.join(terms(text))} "


def _normal(scores: list[float]) -> list[float]:
    best = max(scores, default=0.0)
    return [round(score / best, 6) for score in scores] if best > 0 else scores


def _names(text: str, passage: Passage) -> list[str]:
    """The passage's headings as they would stand in a folded text, those of a letter or two aside."""
    names = (_folded(text[span.start : span.end].split(" (")[0]) for span in passage.headings)
    return [name for name in names if len(name) > 5]


def _passage_text(text: str, passage: Passage) -> str:
    return text[
        (passage.headings or passage.sentences)[0].start : (passage.sentences or passage.headings)[-1].end
    ]


def _extract(
    text: str,
    passages: list[Passage],
    candidates: list[_Candidate],
    target_tokens: int,
    counter: TokenCounter,
) -> str | None:
    """The best sentences that fit, as text; None where not even one does."""
    reference = short_reference(text)
    gap_tokens = counter.count(f"\n{_GAP}\n")
    kept: list[_Candidate] = []
    rendition = None
    remaining = iter(candidates)
    slack = target_tokens - counter.count("\n" + left_out(len(text), reference))
    # Neighbours share a gap, so a first filling leaves room; the following ones use it.
    for _ in range(_NUM_FILLINGS):
        added = _fill(text, passages, remaining, kept, slack - gap_tokens, gap_tokens, counter)
        while added:
            attempt = _render(text, passages, kept + added, reference)
            slack = target_tokens - counter.count(attempt)
            if slack >= 0:
                break
            added.pop()
        if not added:
            break
        kept, rendition = kept + added, attempt
    return rendition


def _fill(
    text: str,
    passages: list[Passage],
    remaining: Iterator[_Candidate],
    kept: list[_Candidate],
    budget: int,
    gap_tokens: int,
    counter: TokenCounter,
) -> list[_Candidate]:
    """The next candidates that fit the budget, each with its heading and a gap."""
    headed = {candidate.passage for candidate in kept}
    added: list[_Candidate] = []
    misses = 0
    for candidate in remaining:
        heading = [] if candidate.passage in headed else passages[candidate.passage].headings
        spans = (*heading, candidate.span)
        cost = gap_tokens + sum(counter.count(text[span.start : span.end]) for span in spans)
        if cost <= budget:
            budget -= cost
            added.append(candidate)
            headed.add(candidate.passage)
        else:
            misses += 1
        if misses > _MAX_MISSES or budget <= gap_tokens:
            break
    return added


def _render(text: str, passages: list[Passage], kept: list[_Candidate], reference: str) -> str:
    headings = {span for candidate in kept for span in passages[candidate.passage].headings}
    spans = sorted(headings | {candidate.span for candidate in kept}, key=lambda span: span.start)
    written: list[str] = []
    end = num_left_out = 0
    for span in (*spans, Span(len(text), len(text))):
        between = text[end : span.start]
        if between.strip():
            num_left_out += len(between)
            at_edge = not written or span.start == len(text)
            gap = f"\n{_GAP}\n" if "\n" in between or at_edge else f" {_GAP} "
            written.append(gap if written else gap.lstrip())
        elif written and span.start < len(text):
            written.append(between if len(between) <= _MAX_BLANK else "\n\n")
        written.append(text[span.start : span.end])
        end = span.end
    return "".join(written).rstrip("\n") + "\n" + left_out(num_left_out, reference)
