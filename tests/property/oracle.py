"""An independent oracle of the decoding rule: one position at a time, plain float64 numpy, no batching.

Written from the published formulas alone (AsymSpec, arXiv 2608.26004, section 3, and the tables of gates and
deltas around it); it shares no code with the package and takes nothing from it but a rule's field names.

Notation: t verifier on the compressed view, a drafter on the full view, b drafter on the compressed view, d
the draft. Inputs are raw logits, padded to any width each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Logits = Sequence[Sequence[float] | Vector] | Vector
LN2 = math.log(2.0)
ROUNDING = 1e-12  # float64's own: an equality within it is an equality
NEAR = 1e-3  # how close to winning an implausible token must be for its exclusion to matter to the margin


class RuleLike(Protocol):
    """The parameters of one request."""

    @property
    def gate(self) -> str: ...
    @property
    def delta(self) -> str: ...
    @property
    def beta(self) -> float: ...
    @property
    def gamma(self) -> float: ...
    @property
    def slack(self) -> float: ...
    @property
    def scale(self) -> float | None: ...
    @property
    def plausibility(self) -> float: ...
    @property
    def agreement(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged position. `margin` (nats): how far the logits are from another verdict, at least."""

    accepted: bool
    token: int
    divergence: float
    margin: float
    token_margin: float


@dataclass(frozen=True, slots=True)
class Block:
    """One decoded block; `margin` is the smallest one that the outcome depends on."""

    tokens: tuple[int, ...]
    num_accepted: int
    num_fused: int
    num_bonus: int
    divergences: tuple[float, ...]
    margin: float


def log_softmax(logits: Sequence[float] | Vector) -> Vector:
    """Natural log-probabilities; −inf stays −inf."""
    x = np.asarray(logits, dtype=np.float64)
    top = x.max()
    total = math.fsum(math.exp(value - top) for value in x)
    return np.array([value - top - math.log(total) for value in x])


def jsd(la: Vector, lb: Vector) -> float:
    """Jensen-Shannon divergence in nats of two log-probability vectors, with 0·log 0 = 0."""
    terms = []
    for x, y in zip(la, lb, strict=True):
        p, q = math.exp(x), math.exp(y)
        if p == 0 and q == 0:
            continue
        log_middle = math.log((p + q) / 2)
        terms += [p * (x - log_middle)] if p > 0 else []
        terms += [q * (y - log_middle)] if q > 0 else []
    return min(max(math.fsum(terms) / 2, 0.0), LN2)


def first_max(x: Vector) -> int:
    """The lowest id among the largest entries."""
    return next(index for index, value in enumerate(x) if value == max(x))


def gap(x: Vector) -> float:
    """Distance between the best entry and the second best (infinite where nothing else is possible)."""
    if len(x) < 2:
        return math.inf
    second, best = sorted(x)[-2:]
    return math.inf if second == -math.inf else float(best - second)


def distance(x: float, y: float) -> float:
    """|x − y|, infinite as soon as one of them is infinite: such a comparison is exact."""
    return math.inf if math.isinf(x) or math.isinf(y) else abs(x - y)


def log(x: float) -> float:
    """log x, −inf for 0."""
    return math.log(x) if x > 0 else -math.inf


def scores(rule: RuleLike, lt: Vector, la: Vector | None, lb: Vector | None, divergence: float) -> Vector:
    """s = t + β·Δ over the eligible tokens, −inf elsewhere; t itself where no token is eligible."""
    beta = rule.beta
    if rule.scale is not None:
        beta *= min(1.0, rule.scale * divergence / LN2)
    s = np.full(len(lt), -math.inf)
    for token, t in enumerate(lt):
        if t == -math.inf:
            continue
        if rule.delta == "none":
            s[token] = t
        elif rule.delta == "context":
            a, b = _of(la, token), _of(lb, token)
            s[token] = t if -math.inf in (a, b) else t + beta * (a - b)
        elif rule.delta == "full":
            a = _of(la, token)
            s[token] = a if a == -math.inf else t + beta * a
        elif rule.delta == "scd":
            b = _of(lb, token)
            s[token] = b if b == -math.inf else t + beta * (t - b)
        else:
            raise AssertionError(rule.delta)
    return s


def plausible(rule: RuleLike, lt: Vector) -> NDArray[np.bool_]:
    """Which tokens have p_t ≥ α·max p_t."""
    return np.array([t >= log(rule.plausibility) + max(lt) - ROUNDING for t in lt])


def judge(
    rule: RuleLike,
    t: Sequence[float] | Vector,
    a: Sequence[float] | Vector | None,
    b: Sequence[float] | Vector | None,
    draft: int,
    place: int,
    vocab_size: int | None = None,
) -> Verdict:
    """The gate's verdict on `draft` at the 1-based `place` of its block, and the token a refusal emits."""
    widths = [len(x) for x in (t, a, b) if x is not None] + ([vocab_size] if vocab_size else [])
    width = min(widths)
    lt = log_softmax(t[:width])
    la = None if a is None else log_softmax(a[:width])
    lb = None if b is None else log_softmax(b[:width])
    divergence = 0.0 if la is None or lb is None else jsd(la, lb)

    if rule.gate == "strict":
        best = first_max(lt)
        return Verdict(draft == best, best, divergence, gap(lt), gap(lt))

    s = scores(rule, lt, la, lb, divergence)
    keep = plausible(rule, lt)
    eligible = np.where(keep, s, -math.inf)
    if max(eligible) == -math.inf:
        eligible = np.where(keep, lt, -math.inf)
    token = first_max(eligible)
    token_margin = gap(eligible)
    border = log(rule.plausibility) + max(lt)
    for value, score in zip(lt, s, strict=True):
        if rule.plausibility > 0 and score >= max(eligible) - NEAR:
            token_margin = min(token_margin, distance(float(value), border))

    if rule.gate in ("cda", "fixed", "position"):
        exponent = {"cda": divergence, "fixed": 0.0, "position": divergence / place}[rule.gate]
        threshold = log(rule.gamma) - exponent + _of(lb, draft)
        accepted = bool(lt[draft] > threshold + ROUNDING)
        margin = distance(float(lt[draft]), threshold)
    elif rule.gate == "fused_greedy":
        accepted, margin = draft == token, token_margin
    elif rule.gate == "slack":
        threshold = max(eligible) + math.log(rule.slack)
        accepted = bool(eligible[draft] > -math.inf and eligible[draft] >= threshold - ROUNDING)
        margin = distance(float(s[draft]), threshold)
        if rule.plausibility > 0:
            margin = min(margin, token_margin, distance(float(lt[draft]), border))
    else:
        raise AssertionError(rule.gate)

    if rule.agreement:
        agrees = first_max(_given(la)) == first_max(lt)
        accepted = accepted or (agrees and lt[draft] > -math.inf)
        margin = min(margin, gap(_given(la)), gap(lt))
    return Verdict(bool(accepted), token, divergence, margin, token_margin)


def decode_block(
    rule: RuleLike,
    bonus: str,
    t: Logits,
    a: Logits | None,
    b: Logits | None,
    drafts: Sequence[int],
    vocab_size: int | None = None,
) -> Block:
    """One block. Under bonus "rule" every draft, the (K+1)-th too, is one of `drafts`."""
    tokens: list[int] = []
    divergences: list[float] = []
    margin = math.inf
    for index, draft in enumerate(drafts):
        verdict = judge(
            rule,
            t[index],
            None if a is None else a[index],
            None if b is None else b[index],
            draft,
            index + 1,
            vocab_size,
        )
        divergences.append(verdict.divergence)
        margin = min(margin, verdict.margin)
        if not verdict.accepted:
            margin = min(margin, verdict.token_margin)
            tokens.append(verdict.token)
            return Block(tuple(tokens), index, 1, 0, tuple(divergences), margin)
        tokens.append(draft)
    if bonus == "verifier":
        widths = [np.asarray(x).shape[-1] for x in (t, a, b) if x is not None]
        width = min([*widths, vocab_size] if vocab_size else widths)
        last = log_softmax(t[len(drafts)][:width])
        tokens.append(first_max(last))
        return Block(tuple(tokens), len(drafts), 0, 1, tuple(divergences), min(margin, gap(last)))
    return Block(tuple(tokens), len(drafts), 0, 0, tuple(divergences), margin)


def _given(x: Vector | None) -> Vector:
    if x is None:
        raise AssertionError("the rule needs a distribution that was not given")
    return x


def _of(x: Vector | None, token: int) -> float:
    return float(_given(x)[token])
