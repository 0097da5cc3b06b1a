"""After every pattern of accepted and refused drafts all three caches equal a fresh prefill."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.decoding.rule import BlockResult
from asymspec_agents.engine import loop
from asymspec_agents.engine.view import View

from .fresh import check_view
from .tiny import ARCHITECTURES, VOCAB, pair, views

RULE = Rule("cda", "context")


def _readers(architecture: str, seed: int = 0) -> loop.Readers:
    verifier, drafter = pair(architecture)
    full, compressed = views(seed)
    readers = loop.Readers(View(verifier, compressed), View(drafter, full), View(drafter, compressed))
    for view in readers.all():
        view.prefill(lambda: None)
        check_view(view, [])
    return readers


def _forced(pattern: Iterator[tuple[int, int]]) -> Callable[..., BlockResult]:
    """A rule that accepts the given number of drafts, then emits the given token where there is room."""

    def verify(rule: Rule, drafts: Tensor, a: Any, b: Any, verifier: Tensor, **_: Any) -> BlockResult:
        num_accepted, token = next(pattern)
        num_places, width = drafts.shape[1], verifier.shape[1]
        num_accepted = min(num_accepted, num_places)
        tokens = drafts[0, :num_accepted].tolist()
        is_fused = num_accepted < num_places
        has_last = num_accepted < width
        tokens += [token] if has_last else []
        one = torch.ones(1, dtype=torch.long)
        return BlockResult(
            tokens=torch.tensor([tokens + [-1] * (width - len(tokens))]),
            num_tokens=one * len(tokens),
            num_accepted=one * num_accepted,
            num_fused=one * is_fused,
            num_bonus=one * (has_last and not is_fused),
            divergence=torch.zeros(1, num_places),
            num_judged=one * (num_accepted + is_fused),
        )

    return verify


def _decode_checked(
    readers: loop.Readers, num_draft_tokens: int, bonus: BonusMode, pattern: Sequence[tuple[int, int]]
) -> list[int]:
    """Decodes one block per entry of the pattern, checks every view after each; returns blocks' lengths."""
    committed: list[int] = []
    lengths = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "verify_block", _forced(iter(pattern)))
        stream = loop.blocks(readers, RULE, num_draft_tokens, bonus, VOCAB)
        for block in itertools.islice(stream, len(pattern)):
            committed.extend(block.tokens)
            lengths.append(len(block.tokens))
            for view in readers.all():
                check_view(view, committed)
                assert view.cache.length >= len(view.prompt) + len(committed) - 2  # at most one token behind
    return lengths


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bonus", get_args(BonusMode))
@pytest.mark.parametrize("num_draft_tokens", [1, 3])
def test_every_number_of_accepted_drafts_after_every_other(
    architecture: str, bonus: BonusMode, num_draft_tokens: int
) -> None:
    num_places = num_draft_tokens + (bonus == "rule")
    counts = range(num_places + 1)
    pattern = [(j, 7 * j % VOCAB) for pair_ in itertools.product(counts, counts) for j in pair_]
    lengths = _decode_checked(_readers(architecture), num_draft_tokens, bonus, pattern)
    emits_last = bonus == "verifier"
    assert lengths == [j + (j < num_places or emits_last) for j, _ in pattern]


@given(
    architecture=st.sampled_from(ARCHITECTURES),
    bonus=st.sampled_from(get_args(BonusMode)),
    num_draft_tokens=st.integers(1, 8),
    pattern=st.lists(st.tuples(st.integers(0, 9), st.integers(0, VOCAB - 1)), min_size=1, max_size=6),
)
@settings(max_examples=15)
def test_any_pattern(
    architecture: str, bonus: BonusMode, num_draft_tokens: int, pattern: list[tuple[int, int]]
) -> None:
    _decode_checked(_readers(architecture, seed=1), num_draft_tokens, bonus, pattern)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_patterns_of_the_rule_itself(architecture: str) -> None:
    """Unforced decoding meets every number of accepted drafts, and every view stays exact."""
    seen = set()
    for seed in range(3):
        readers = _readers(architecture, seed)
        committed: list[int] = []
        rule = Rule("cda", "context", gamma=1.0)
        for block in itertools.islice(loop.blocks(readers, rule, 2, "rule", VOCAB), 14):
            committed.extend(block.tokens)
            seen.add(block.origins.count("accepted"))
            for view in readers.all():
                check_view(view, committed)
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_plain_decoding_reads_each_token_once(architecture: str) -> None:
    verifier, _ = pair(architecture)
    view = View(verifier, views(0)[0])
    view.prefill(lambda: None)
    committed: list[int] = []
    stream = loop.blocks(loop.Readers(view), Rule("strict", "none"), 0, "verifier", VOCAB)
    for block in itertools.islice(stream, 12):
        committed.extend(block.tokens)
        assert block.origins == ("bonus",)
        check_view(view, committed)
    assert view.num_forwarded == len(view.prompt) - 1 + len(committed)
