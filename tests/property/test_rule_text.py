"""Whole texts decoded with the rule by toy models: equal at every block length, lossless under `strict`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.decoding.rule import verify_block
from tests.property import oracle
from tests.property.cases import BONUSES, DELTAS, GATES, Array, examples, forbid

TOLERANCE = 1e-4  # nats


class Toy:
    """Random logits as a function of the committed tokens: a verifier and a drafter with two views."""

    def __init__(self, seed: int, vocab: int) -> None:
        self.seed, self.vocab = seed, vocab
        self.memo: dict[tuple[int, ...], tuple[Array, Array, Array]] = {}

    def __call__(self, text: Sequence[int]) -> tuple[Array, Array, Array]:
        """t, a, b for the token after `text`."""
        key = tuple(text)
        if key not in self.memo:
            rng = np.random.default_rng([self.seed, *key])
            a, b, t = rng.normal(size=(3, self.vocab)).astype(np.float32).astype(np.float64) * 2
            b = 0.6 * b + 0.4 * a
            t = 0.5 * t + 0.5 * b
            if rng.random() < 0.3:  # a grammar at work
                t = forbid(rng, t, 0.6)
            self.memo[key] = (t, a, b)
        return self.memo[key]

    def decode(
        self, rule: Rule, num_draft_tokens: int, bonus: BonusMode, length: int
    ) -> tuple[list[int], dict[str, int]]:
        """The text by blocks, and its counts."""
        text: list[int] = []
        counts = dict.fromkeys(("blocks", "accepted", "fused", "bonus", "emitted"), 0)
        while len(text) < length:
            num_places = num_draft_tokens + (bonus == "rule")
            drafts: list[int] = []
            for _ in range(num_places):
                drafts.append(int(self([*text, *drafts])[1].argmax()))
            rows = [self([*text, *drafts[:place]]) for place in range(num_places + (bonus == "verifier"))]
            t, a, b = (torch.from_numpy(np.stack(x))[None] for x in zip(*rows, strict=True))
            result = verify_block(rule, torch.tensor([drafts]), a[:, :num_places], b[:, :num_places], t)
            emitted = result.tokens[0, : int(result.num_tokens[0])].tolist()
            text += emitted
            counts["blocks"] += 1
            counts["emitted"] += len(emitted)
            for name in ("accepted", "fused", "bonus"):
                counts[name] += int(getattr(result, f"num_{name}")[0])
        return text[:length], counts


def reference(toy: Toy, rule: Rule, length: int) -> tuple[list[int], float]:
    """The oracle's text, token by token, and the smallest margin it met."""
    text: list[int] = []
    margin = math.inf
    while len(text) < length:
        t, a, b = toy(text)
        block = oracle.decode_block(rule, "none", [t], [a], [b], [int(a.argmax())])
        margin = min(margin, block.margin)
        text += block.tokens
    return text, margin


rules = st.builds(
    Rule,
    gate=st.sampled_from(GATES),
    delta=st.sampled_from(DELTAS),
    beta=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    gamma=st.sampled_from([0.0, 0.5, 1.15, 2.0]),
    slack=st.sampled_from([1.0, 0.3]),
    scale=st.sampled_from([None, 4.0]),
    plausibility=st.sampled_from([0.0, 0.1]),
    agreement=st.booleans(),
)


@examples(80)
@given(rule=rules, seed=st.integers(0, 10**6), num_draft_tokens=st.integers(1, 8))
def test_the_text_is_the_same_for_every_block_length(rule: Rule, seed: int, num_draft_tokens: int) -> None:
    """Invariants 7 and 11: bonus "rule" and "none" give the oracle's token-by-token text at any K."""
    assume(rule.gate != "position")
    toy = Toy(seed, vocab=9)
    expected, margin = reference(toy, rule, 16)
    assume(margin > TOLERANCE)
    for bonus in ("rule", "none"):
        text, counts = toy.decode(rule, num_draft_tokens, bonus, 16)
        assert text == expected
        assert counts["accepted"] + counts["fused"] + counts["bonus"] == counts["emitted"]
        assert counts["bonus"] == 0
        assert counts["fused"] <= counts["blocks"]


@examples(40)
@given(seed=st.integers(0, 10**6), num_draft_tokens=st.integers(1, 8), rule=rules)
def test_strict_is_the_verifiers_greedy_text(seed: int, num_draft_tokens: int, rule: Rule) -> None:
    """Lossless whatever else the rule carries, for every bonus mode (what identical views decode with)."""
    toy = Toy(seed, vocab=9)
    greedy: list[int] = []
    while len(greedy) < 16:
        greedy.append(int(toy(greedy)[0].argmax()))
    for bonus in BONUSES:
        text, counts = toy.decode(replace(rule, gate="strict"), num_draft_tokens, bonus, 16)
        assert text == greedy
        full = counts["blocks"] - counts["fused"]
        assert counts["bonus"] == (full if bonus == "verifier" else 0)


def test_the_verifiers_bonus_does_depend_on_the_block_length() -> None:
    """Why "rule" is the default: with "verifier" some text changes with K."""
    rule = Rule(gamma=0.0, beta=4.0)
    texts: list[Any] = [Toy(7, vocab=9).decode(rule, k, "verifier", 16)[0] for k in (1, 2, 3)]
    assert texts[0] != texts[1] or texts[1] != texts[2]
