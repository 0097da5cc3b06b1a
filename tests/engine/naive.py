"""The slow decoder the engine must equal: no cache, every view read anew, the rule in float64.

Written from the published formulas (AsymSpec, arXiv 2608.26004, section 3, with the tables of gates and
deltas around it). It takes from the package only the names of a rule's parameters. Logits are those of a
plain forward over a whole sequence, memoised by prefix, so that many settings can share them.

Notation: t verifier on the compressed view, a drafter on the full view, b drafter on the compressed view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from asymspec_agents.decoding.modes import Rule

from .runs import Run

__all__ = ["Comparison", "Naive", "NaiveBlock", "Reader", "Rows", "compare", "judge"]

Vector = NDArray[np.float64]
LN2 = math.log(2.0)
EXCUSED_MARGIN = 1e-4  # nats: below it fp32 may decide otherwise
EXCUSED_SHARE = 3e-3


class Rows:
    """The next token's logits after a sequence, each computed without a cache."""

    def __init__(self, module: PreTrainedModel) -> None:
        self._module = module
        self._memo: dict[bytes, NDArray[np.float32]] = {}

    def __call__(self, sequence: tuple[int, ...]) -> Vector:
        key = _key(sequence)
        if key not in self._memo:
            self._memo[key] = self._forward(sequence)[-1].copy()
        return self._memo[key].astype(np.float64)

    def prime(self, sequence: tuple[int, ...], first: int) -> None:
        """One forward for all prefixes of at least `first` tokens: for models too slow for one each."""
        for index, row in enumerate(self._forward(sequence)[first - 1 :]):
            self._memo[_key(sequence[: first + index])] = row

    @torch.inference_mode()
    def _forward(self, sequence: tuple[int, ...]) -> NDArray[np.float32]:
        ids = torch.tensor([sequence], device=next(self._module.parameters()).device)
        logits: NDArray[np.float32] = self._module(input_ids=ids, use_cache=False).logits[0].cpu().numpy()
        return logits


def _key(sequence: tuple[int, ...]) -> bytes:
    """A small stand-in for a sequence: a full matrix remembers hundreds of thousands."""
    return np.array(sequence, dtype=np.int32).tobytes()


@dataclass(frozen=True, slots=True)
class Reader:
    """A model's rows behind one prompt."""

    rows: Rows
    prompt: tuple[int, ...]

    def __call__(self, text: Sequence[int], vocab_size: int) -> Vector:
        """Log-probabilities of the token after prompt + text."""
        logits = self.rows((*self.prompt, *text))[:vocab_size]
        shifted = logits - logits.max()
        normal: Vector = shifted - math.log(np.exp(shifted).sum())
        return normal


@dataclass(frozen=True, slots=True)
class Judgement:
    """One position: does the draft stand, which token a refusal emits, JSD(a, b), and how close it was."""

    accepted: bool
    fused: int
    divergence: float
    margin: float


@dataclass(frozen=True, slots=True)
class NaiveBlock:
    """A block's tokens with their origins; `margin` is the smallest of its positions."""

    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    divergences: tuple[float, ...]
    margin: float


def jsd(a: Vector, b: Vector) -> float:
    """Jensen-Shannon divergence in nats of two finite log-probability vectors."""
    middle = np.logaddexp(a, b) - LN2
    half_sum = 0.5 * float((np.exp(a) * (a - middle) + np.exp(b) * (b - middle)).sum())
    return min(max(half_sum, 0.0), LN2)


def gap(x: Vector) -> float:
    """The best entry's lead."""
    second, best = np.partition(x, -2)[-2:]
    return math.inf if second == -math.inf else float(best - second)


def judge(rule: Rule, draft: int, place: int, t: Vector, a: Vector, b: Vector | None) -> Judgement:
    """The verdict on a draft at the 1-based `place`, from log-probabilities, some of t's maybe -inf."""
    if rule.gate == "strict":
        best = int(t.argmax())
        return Judgement(draft == best, best, 0.0, min(gap(t), gap(a)))
    divergence = 0.0 if b is None else jsd(a, b)
    beta = rule.beta
    if rule.scale is not None:
        beta *= min(1.0, rule.scale * divergence / LN2)
    if rule.delta == "none":
        s = t.copy()
    elif rule.delta == "full":
        s = t + beta * a
    else:
        assert b is not None
        s = t + beta * ((a if rule.delta == "context" else t) - b) if beta else t.copy()  # 0·(-inf) is 0
    if rule.plausibility > 0:
        s[t < math.log(rule.plausibility) + t.max()] = -math.inf
    fused = int(s.argmax())
    margin = min(gap(s), gap(t), gap(a))
    if rule.gate == "fused_greedy":
        accepted = draft == fused
    elif rule.gate == "slack":
        least = s.max() + math.log(rule.slack)
        accepted = bool(s[draft] >= least)
        margin = min(margin, abs(float(s[draft] - least)))
    else:
        assert b is not None
        lenience = {"cda": divergence, "fixed": 0.0, "position": divergence / place}[rule.gate]
        log_gamma = math.log(rule.gamma) if rule.gamma > 0 else -math.inf
        threshold = log_gamma - lenience + b[draft]
        accepted = bool(t[draft] > threshold)
        margin = min(margin, abs(float(t[draft] - threshold)))
    if rule.agreement and a.argmax() == t.argmax():
        accepted = True
    return Judgement(accepted, fused, divergence, margin)


@dataclass(frozen=True, slots=True)
class Naive:
    """Who reads what, and the rule; `drafter` None is plain greedy decoding."""

    rule: Rule
    num_draft_tokens: int
    bonus: str
    vocab_size: int
    verifier: Reader
    drafter: Reader | None = None
    base: Reader | None = None

    @property
    def num_places(self) -> int:
        """Drafts a block proposes."""
        return 0 if self.drafter is None else self.num_draft_tokens + (self.bonus == "rule")

    def block(self, committed: Sequence[int]) -> NaiveBlock:
        """The block that follows the committed tokens."""
        tokens: list[int] = []
        divergences: list[float] = []
        margin = math.inf
        for place in range(1, self.num_places + 1):
            text = [*committed, *tokens]
            assert self.drafter is not None
            t, a = self.verifier(text, self.vocab_size), self.drafter(text, self.vocab_size)
            b = None if self.base is None else self.base(text, self.vocab_size)
            draft = int(a.argmax())
            verdict = judge(self.rule, draft, place, t, a, b)
            divergences.append(verdict.divergence)
            margin = min(margin, verdict.margin)
            tokens.append(draft if verdict.accepted else verdict.fused)
            if not verdict.accepted:
                return NaiveBlock(
                    tuple(tokens), ("accepted",) * (place - 1) + ("fused",), tuple(divergences), margin
                )
        origins = ["accepted"] * self.num_places
        if self.drafter is None or self.bonus == "verifier":
            t = self.verifier([*committed, *tokens], self.vocab_size)
            tokens.append(int(t.argmax()))
            origins.append("bonus")
            margin = min(margin, gap(t))
        return NaiveBlock(tuple(tokens), tuple(origins), tuple(divergences), margin)


@dataclass(slots=True)
class Comparison:
    """What comparing runs block by block has seen so far."""

    num_tokens: int = 0
    num_accepted: int = 0
    num_refused: int = 0
    num_excused: int = 0
    accepted_lengths: set[int] = field(default_factory=set)

    def check_excuses(self) -> None:
        """Ties may be broken otherwise in fp32, but only a few in a thousand."""
        assert self.num_excused <= max(1.0, EXCUSED_SHARE * self.num_tokens), self


def compare(run: Run, naive: Naive, seen: Comparison) -> None:
    """Asserts that every block of the run is the naive one, and that the report counts what happened.

    A block that differs where fp32 cannot tell is excused, counted, and gone on from as the run has it.
    """
    committed: list[int] = []
    blocks: list[NaiveBlock] = []
    for number, step in enumerate(run.steps):
        block = naive.block(committed)
        is_last = number == len(run.steps) - 1  # it may be trimmed
        length = len(step.tokens) if is_last else len(block.tokens)
        same = (step.tokens, step.origins) == (block.tokens[:length], block.origins[:length])
        if not same:
            assert block.margin < EXCUSED_MARGIN, f"block {number} after {committed}: {step} is not {block}"
            seen.num_excused += 1
        blocks.append(block)
        committed += step.tokens
    seen.num_tokens += len(committed)
    seen.num_accepted += run.report.accepted
    seen.num_refused += run.report.fused
    if seen.num_excused == 0:
        _check_report(run, naive, blocks)
        seen.accepted_lengths.update(block.origins.count("accepted") for block in blocks)


def _check_report(run: Run, naive: Naive, blocks: list[NaiveBlock]) -> None:
    report = run.report
    origins = [origin for block in blocks for origin in block.origins]
    counted = {"accepted": report.accepted, "fused": report.fused, "bonus": report.bonus}
    assert counted == {name: origins.count(name) for name in counted}
    assert report.blocks == len(blocks)
    assert report.drafted == naive.num_places * len(blocks)
    by_place = [sum(b.origins[i : i + 1] == ("accepted",) for b in blocks) for i in range(naive.num_places)]
    assert list(report.accepted_per_position) == by_place
    divergences = [d for block in blocks for d in block.divergences]
    mean = sum(divergences) / len(divergences) if divergences else 0.0
    assert abs(report.mean_divergence - mean) < 1e-5
