"""Random batches of blocks for the rule's property tests, as the rule and as the oracle take them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from asymspec_agents.decoding.modes import BonusMode, Delta, Gate, Rule
from asymspec_agents.decoding.rule import BlockResult, RowParameters, verify_block
from tests.property import oracle

GATES: tuple[Gate, ...] = get_args(Gate)
DELTAS: tuple[Delta, ...] = get_args(Delta)
BONUSES: tuple[BonusMode, ...] = get_args(BonusMode)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
KINDS = ("normal", "peaked", "tiny", "grid", "flat", "offset")
GARBAGE = np.array([np.nan, np.inf, -np.inf, 1e30, 60000.0, 0.0])
Array = NDArray[np.float64]


def examples(count: int) -> settings:
    """Hypothesis settings for tests whose examples are whole batches; the same ones on every run."""
    return settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def logits_of(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Random logits: ordinary, almost certain, down to probabilities of 1e-10 and 1e-30, or full of ties."""
    normal: Array = np.asarray(rng.normal(size=shape))
    if kind == "peaked":
        return 12 * normal
    if kind == "tiny":
        depth: Array = rng.choice([0.0, 0.0, math.log(1e-10), math.log(1e-30)], size=shape)
        return normal + depth
    if kind == "grid":
        return rng.integers(-1, 2, size=shape).astype(np.float64)
    if kind == "flat":
        return np.zeros(shape)
    return np.asarray(normal * 2 + (200.0 if kind == "offset" else 0.0))


def forbid(rng: np.random.Generator, logits: Array, share: float) -> Array:
    """The logits with about `share` of the ids at −inf, at least one left in every row."""
    mask = rng.random(logits.shape) < share
    survivor = rng.integers(logits.shape[-1], size=logits.shape[:-1])
    np.put_along_axis(mask, survivor[..., None], False, axis=-1)
    return np.where(mask, -np.inf, logits)


def padded(rng: np.random.Generator, logits: Array, extra: int) -> Array:
    """The logits with `extra` more ids, which hold garbage."""
    garbage = rng.choice(GARBAGE, size=(*logits.shape[:-1], extra))
    return np.concatenate([logits, garbage], axis=-1)


@dataclass
class Case:
    """A batch of blocks: tensors as the rule takes them, and the same numbers for the oracle."""

    rules: list[Rule]
    bonus: BonusMode
    drafts: Tensor
    num_drafts: Tensor
    t: Tensor
    a: Tensor
    b: Tensor
    vocab_size: int
    given_vocab_size: int | None

    @property
    def parameters(self) -> RowParameters:
        def row(name: str) -> Tensor:
            return torch.tensor([getattr(rule, name) or 0.0 for rule in self.rules], dtype=torch.float32)

        return RowParameters(*(row(name) for name in ("beta", "gamma", "slack", "scale", "plausibility")))

    def run(self) -> BlockResult:
        rule = self.rules[0]
        return verify_block(
            rule,
            self.drafts,
            self.a if rule.needs_drafter else None,
            self.b if rule.needs_base else None,
            self.t,
            num_drafts=self.num_drafts,
            vocab_size=self.given_vocab_size,
            parameters=self.parameters,
        )

    def expected(self, row: int) -> oracle.Block:
        rule, count = self.rules[row], int(self.num_drafts[row])
        return oracle.decode_block(
            rule,
            self.bonus,
            self.t[row].double().numpy(),
            self.a[row].double().numpy() if rule.needs_drafter else None,
            self.b[row].double().numpy() if rule.needs_base else None,
            self.drafts[row, :count].tolist(),
            self.vocab_size,
        )


@st.composite
def cases(draw: st.DrawFn, gate: Gate, max_places: int = 9) -> Case:
    """Random batches: the shape of the case is drawn, the numbers come from a drawn seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vocab_size = draw(st.sampled_from([2, 3, 5, 8, 13, 50]))
    batch, places = draw(st.integers(1, 4)), draw(st.integers(0, max_places))
    bonus = "verifier" if places == 0 else draw(st.sampled_from(BONUSES))
    delta = draw(st.sampled_from(DELTAS))
    scaled, agreement = draw(st.booleans()), draw(st.booleans())
    kind, likeness = draw(st.sampled_from(KINDS)), draw(st.sampled_from([0.0, 0.5, 0.95, 1.0]))
    shares = [draw(st.sampled_from([0.0, 0.0, 0.4, 0.9])) for _ in range(3)]
    disjoint = draw(st.booleans()) and draw(st.booleans())
    structure = Rule(gate, delta, scale=1.0 if scaled else None, agreement=agreement)
    pads = [draw(st.sampled_from([0, 1, 7])) for _ in range(3)]
    explicit = draw(st.booleans())
    if not explicit:  # one distribution that is read has to end with the vocabulary
        read = (True, structure.needs_drafter, structure.needs_base)
        pads[draw(st.sampled_from([index for index in range(3) if read[index]]))] = 0
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]

    positions = places + (bonus == "verifier")
    a = logits_of(rng, kind, (batch, places, vocab_size))
    b = likeness * a + (1 - likeness) * logits_of(rng, kind, a.shape)
    t = logits_of(rng, kind, (batch, positions, vocab_size))
    t[:, :places] = likeness * b + (1 - likeness) * t[:, :places]
    t, a, b = (forbid(rng, x, share) for x, share in zip((t, a, b), shares, strict=True))
    if disjoint and places:
        half = np.arange(vocab_size) % 2 == 0
        a, b = np.where(half, a, -np.inf), np.where(half, -np.inf, b)
        a[..., 0], b[..., 1] = 0.0, 0.0
    drafts = np.where(
        rng.random((batch, places)) < 0.75,
        np.where(np.isfinite(a), a, -1e9).argmax(axis=-1),
        rng.integers(vocab_size, size=(batch, places)),
    )
    num_drafts = rng.integers(0 if bonus == "verifier" else min(1, places), places + 1, size=batch)
    if rng.random() < 0.5:
        num_drafts[:] = places
    behind = np.arange(places) >= num_drafts[:, None]  # padding may hold anything
    drafts = np.where(behind, rng.choice([-1, 0, 10**6]), drafts)
    a, b = (np.where(behind[..., None], rng.choice(GARBAGE), x) for x in (a, b))

    def tensor(x: Array, pad: int) -> Tensor:
        with np.errstate(over="ignore"):
            return torch.from_numpy(padded(rng, x, pad)).to(dtype)

    rules = [
        replace(
            structure,
            beta=float(rng.choice([0.0, 1.0, 4.0, rng.uniform(0, 4)])),
            gamma=float(rng.choice([0.0, 0.5, 1.0, 4.0, rng.uniform(0, 4)])),
            slack=float(rng.choice([1.0, 0.5, 1e-6, rng.uniform(1e-3, 1)])),
            scale=float(rng.choice([4.0, 0.1, 1e6])) if scaled else None,
            plausibility=float(rng.choice([0.0, 0.0, 0.1, 0.9, rng.uniform(0, 0.999)])),
        )
        for _ in range(batch)
    ]
    return Case(
        rules,
        bonus,
        torch.from_numpy(drafts.astype(np.int64)),
        torch.from_numpy(num_drafts.astype(np.int64)),
        tensor(t, pads[0]),
        tensor(a, pads[1]),
        tensor(b, pads[2]),
        vocab_size,
        vocab_size if explicit else None,
    )


def outcome(result: BlockResult, row: int) -> tuple[tuple[int, ...], int, int, int]:
    count = int(result.num_tokens[row])
    return (
        tuple(result.tokens[row, :count].tolist()),
        int(result.num_accepted[row]),
        int(result.num_fused[row]),
        int(result.num_bonus[row]),
    )
