"""What the plugin must emit: each token judged by the naive rule on the tokens before it.

A forward over a whole answer gives the logits of all its prefixes, so long answers are cheap to check.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from transformers import PreTrainedModel

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.protocol import AsymSpecOptions
from tests.engine.naive import EXCUSED_MARGIN, EXCUSED_SHARE, Judgement, Reader, Rows, Vector, gap, judge

from .models import NUM_IDS, modules

__all__ = ["Oracle", "Seen", "tiny_oracle"]


@dataclass(slots=True)
class Seen:
    """What checking has seen: tokens, those where the draft stood, and those fp32 may decide otherwise."""

    num_tokens: int = 0
    num_accepted: int = 0
    num_excused: int = 0
    texts: list[tuple[int, ...]] = field(default_factory=list)

    def check_excuses(self) -> None:
        """Ties may be broken otherwise in fp32, but only a few in a thousand."""
        assert self.num_excused <= max(1.0, EXCUSED_SHARE * self.num_tokens), self


class Oracle:
    """The naive rule over a pair; ids from `num_ids` on are padding."""

    def __init__(self, verifier: PreTrainedModel, drafter: PreTrainedModel, num_ids: int) -> None:
        self._verifier, self._drafter = Rows(verifier), Rows(drafter)
        self._num_ids = num_ids

    def check(
        self,
        full: Sequence[int],
        compressed: Sequence[int],
        options: AsymSpecOptions,
        tokens: Sequence[int],
        seen: Seen,
        allowed: Sequence[Sequence[int]] | None = None,
        base_ids: Sequence[int] = (),
    ) -> None:
        """Asserts that every token is legal for its prefix; `allowed`: by a grammar, at each index.

        `base_ids`: the compressed view as the drafter reads it, where that is not what the verifier reads.
        Where the outcome depends on the place in a block (gate `position`, the verifier's bonus), the outcome
        of every place is legal.
        """
        short = base_ids or compressed
        is_same = list(full) == list(short)
        is_strict = is_same and options.identical_views == "strict"
        rule = Rule("strict", "none") if is_strict else options.rule()
        verifier = self._reader(self._verifier, compressed, tokens)
        drafter = self._reader(self._drafter, full, tokens)
        base = self._reader(self._drafter, short, tokens) if rule.needs_base else None
        num_places = options.num_draft_tokens + 1 if rule.gate == "position" else 1
        for index, token in enumerate(tokens):
            text = tokens[:index]
            t, a = verifier(text, self._num_ids), drafter(text, self._num_ids)
            b = None if base is None else base(text, self._num_ids)
            if allowed is not None:
                t = masked(t, allowed[index])
            draft = int(a.argmax())
            verdicts = [judge(rule, draft, place + 1, t, a, b) for place in range(num_places)]
            legal = {_token(verdict, draft) for verdict in verdicts}
            margin = min(verdict.margin for verdict in verdicts)
            if options.bonus == "verifier" and index >= 1:
                legal.add(int(t.argmax()))
                margin = min(margin, gap(t))
            if token not in legal:
                assert margin < EXCUSED_MARGIN, (options, len(full), len(compressed), index, token, legal)
                seen.num_excused += 1
            seen.num_accepted += any(verdict.accepted for verdict in verdicts)
        seen.num_tokens += len(tokens)
        seen.texts.append(tuple(tokens))

    def greedy(
        self,
        prompt: Sequence[int],
        tokens: Sequence[int],
        vocab_size: int,
        allowed: Sequence[Sequence[int]] | None = None,
    ) -> list[int]:
        """The verifier's own next token behind each prefix of the answer: plain decoding, where it agrees.

        A token within fp32's reach of the best counts as it; `allowed`: by a grammar, at each index.
        """
        reader = self._reader(self._verifier, prompt, tokens)
        best = []
        for index, token in enumerate(tokens):
            t = reader(tokens[:index], vocab_size)
            t = t if allowed is None else masked(t, allowed[index])
            best.append(token if t.max() - t[token] < EXCUSED_MARGIN else int(t.argmax()))
        return best

    def _reader(self, rows: Rows, prompt: Sequence[int], tokens: Sequence[int]) -> Reader:
        rows.prime((*prompt, *tokens), len(prompt))
        return Reader(rows, tuple(prompt))


def masked(t: Vector, allowed: Sequence[int]) -> Vector:
    """The log-probabilities of the allowed ids alone."""
    kept = np.full_like(t, -math.inf)
    kept[list(allowed)] = t[list(allowed)]
    normal: Vector = kept - np.logaddexp.reduce(kept)
    return normal


def _token(verdict: Judgement, draft: int) -> int:
    return draft if verdict.accepted else verdict.fused


@functools.cache
def tiny_oracle(architecture: str) -> Oracle:
    """The oracle of the small random pair."""
    return Oracle(*modules(architecture), NUM_IDS)
