"""Query-aware extraction: the sentences of a text that bear on the query, in their order, gaps marked.

Passages are scored first (see `linked`); a sentence then has its passage's score, a bonus for opening it
(where articles define what they are about), and a little for the names in it that the best passages mention:
the sentence that answers seldom repeats the question. Its own match with the query counts the more the less
of the text can be kept (where much fits, the best passages are better whole) and the longer its passage is: a
list or a log says little of its lines. A sentence that matches far better than every other comes first. The
weights were chosen at the `dev` half of the multi-hop questions in benchmarks/evidence.py, over shares from
0.1 to 0.6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Compressor, Rendition
from .headtail import HeadTail
from .linked import LinkedPassage, linked_scores
from .marker import left_out, short_reference
from .ranking import Bm25Ranker, NoRanker, Ranker, best_matches
from .segments import Passage, Span, segment
from .terms import query_terms, term_lists, terms

__all__ = ["Extractive", "extraction"]

_GAP = "[…]"
_OPENING_BONUS = 0.25
_MATCH_WEIGHT = 0.5  # where next to nothing can be kept
_UNMATCHED_SHARE = 0.4  # of the text's tokens: where so many are kept, a sentence's own match counts nothing
_LONG_MATCH_WEIGHT = 1.0  # in an endless passage, whatever can be kept
_NUM_TOGETHER = 6  # sentences of a passage that are about one thing; of longer ones the less the longer
_NAMES_WEIGHT = 0.5
_OUTSTANDING = 0.7  # what the second-best match has of the best one, at most, where that comes first
_NUM_FILLINGS = 4
_MAX_PASSAGES = 300  # of a longer text, those that hold most of the query's terms, and those around them
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
        return f"extractive/3(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        num_tokens = counter.count(text)
        if num_tokens <= target_tokens:
            return Rendition(text, "extractive", "text")
        shortened = None
        if wanted := query_terms(query):
            passages = segment(text)
            candidates = self._candidates(text, passages, query, wanted, target_tokens / num_tokens)
            shortened = _extract(text, passages, candidates, target_tokens, counter)
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "extractive", "text")

    def _candidates(
        self, text: str, passages: list[Passage], query: str, wanted: list[str], share: float
    ) -> list[_Candidate]:
        """Sentences with their scores, best first; none where the query matches nothing.

        `share`: how much of the text can be kept.
        """
        looked_at: Sequence[int] = range(len(passages))
        if len(passages) > _MAX_PASSAGES:
            looked_at = best_matches([_whole(text, passage) for passage in passages], wanted, _MAX_PASSAGES)
        spans = [(index, span) for index in looked_at for span in passages[index].sentences]
        sentence_terms = term_lists(text[span.start : span.end] for _, span in spans)
        found = iter(sentence_terms)
        linked = [_linked(text, passages[index], found) for index in looked_at]
        scores, names = linked_scores(self.ranker, linked, query, wanted)
        if not any(scores):
            return []
        passage_scores = dict(zip(looked_at, scores, strict=True))
        ranking = self.ranker.rank(sentence_terms)
        matches, named = ranking.scores(wanted), ranking.scores(names)
        match_weight = _MATCH_WEIGHT * max(0.0, 1 - share / _UNMATCHED_SHARE)
        candidates = []
        for (index, span), match, name in zip(spans, matches, named, strict=True):
            sentences = passages[index].sentences
            alone = max(0.0, 1 - _NUM_TOGETHER / len(sentences))
            score = passage_scores[index] + max(match_weight, _LONG_MATCH_WEIGHT * alone) * match
            is_opening = span == sentences[0] and _opens_paragraph(text, passages[index])
            score += (1 - alone) * (_NAMES_WEIGHT * name + _OPENING_BONUS * is_opening)
            candidates.append(_Candidate(round(score, 6), index, span))
        first = _outstanding(matches)
        apart = _distances([passage_scores[candidate.passage] > 0 for candidate in candidates])
        # Of equal scores the one next to a better one comes first, then the earlier one.
        order = sorted(range(len(candidates)), key=lambda at: (at != first, -candidates[at].score, apart[at]))
        return [candidates[at] for at in order]


def _distances(chosen: Sequence[bool]) -> list[int]:
    """How far each place is from the next chosen one."""
    far = len(chosen)
    distances = [0 if is_chosen else far for is_chosen in chosen]
    for at in range(1, far):
        distances[at] = min(distances[at], distances[at - 1] + 1)
    for at in range(far - 2, -1, -1):
        distances[at] = min(distances[at], distances[at + 1] + 1)
    return distances


def _opens_paragraph(text: str, passage: Passage) -> bool:
    """Whether the passage is a paragraph of the text, and not some of many lines without a blank one."""
    start = passage.sentences[0].start
    return bool(passage.headings) or start == 0 or text[max(0, start - 4) : start].count("\n") > 1


def _outstanding(matches: Sequence[float]) -> int | None:
    """The place of the match that no other comes near; None where there is none."""
    best = max(range(len(matches)), key=matches.__getitem__)
    others = max((match for at, match in enumerate(matches) if at != best), default=0.0)
    return best if others <= _OUTSTANDING * matches[best] else None


def extraction(ranker: Ranker, head_tail: HeadTail) -> Compressor:
    """Extraction by a ranker; head and tail where it is none."""
    return head_tail if isinstance(ranker, NoRanker) else Extractive(ranker, head_tail)


def _linked(text: str, passage: Passage, sentence_terms: Iterator[list[str]]) -> LinkedPassage:
    headings = tuple(text[span.start : span.end] for span in passage.headings)
    words = [term for heading in headings for term in terms(heading)]
    for _ in passage.sentences:
        words += next(sentence_terms)
    return LinkedPassage(headings, _whole(text, passage), words)


def _whole(text: str, passage: Passage) -> str:
    spans = passage.headings + passage.sentences
    return text[spans[0].start : spans[-1].end]


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
    remaining = deque(candidates)
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
    remaining: deque[_Candidate],
    kept: list[_Candidate],
    budget: int,
    gap_tokens: int,
    counter: TokenCounter,
) -> list[_Candidate]:
    """The next candidates that fit the budget, each with its heading and a gap; the others remain."""
    headed = {candidate.passage for candidate in kept}
    added: list[_Candidate] = []
    missed: list[_Candidate] = []
    while remaining and len(missed) <= _MAX_MISSES and budget > gap_tokens:
        candidate = remaining.popleft()
        heading = [] if candidate.passage in headed else passages[candidate.passage].headings
        spans = (*heading, candidate.span)
        cost = gap_tokens + sum(counter.count(text[span.start : span.end]) for span in spans)
        if cost <= budget:
            budget -= cost
            added.append(candidate)
            headed.add(candidate.passage)
        else:
            missed.append(candidate)
    remaining.extendleft(reversed(missed))
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
