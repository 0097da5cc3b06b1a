"""What an answer must be, whatever the block: invariants of whole texts on small models."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from asymspec_agents.decoding.modes import MODES, BonusMode
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.protocol import AsymSpecOptions

from .fresh import uncached_logits
from .naive import Comparison, compare
from .runs import run
from .settings import naive_asymspec
from .tiny import ARCHITECTURES, pair, tiny_engine, views

by_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
LENGTH = 24


def greedy(architecture: str, prompt: list[int], length: int, model: str = "verifier") -> list[int]:
    """Plain greedy decoding without a cache."""
    verifier, drafter = pair(architecture)
    chosen = verifier if model == "verifier" else drafter
    text: list[int] = []
    while len(text) < length:
        text.append(int(uncached_logits(chosen, [*prompt, *text])[-1].argmax()))
    return text


@by_architecture
@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 1.0},
        {"mode": "fused_greedy", "beta": 2.0},
        {"mode": "product"},
        {"mode": "scaled"},
        {"mode": "fixed_gate", "gamma": 1.0},
        {"gate": "slack", "delta": "scd", "slack": 0.3},
        {"mode": "strict"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_the_text_is_the_same_for_every_block_length(architecture: str, options: dict[str, Any]) -> None:
    engine = tiny_engine(architecture)
    texts = {
        (bonus, k): tuple(
            run(engine, views(1), max_tokens=LENGTH, bonus=bonus, num_draft_tokens=k, **options).tokens
        )
        for bonus, ks in (("rule", (1, 2, 3, 8)), ("none", (1, 4)))
        for k in ks
    }
    assert len(set(texts.values())) == 1, texts


def test_with_the_verifiers_bonus_the_text_depends_on_the_blocks() -> None:
    """The other bonus is no mere matter of speed; if it were, the default would need no reason."""
    engine = tiny_engine("qwen2")
    texts = {
        tuple(run(engine, views(1), max_tokens=40, bonus="verifier", num_draft_tokens=k).tokens)
        for k in (1, 2, 3, 4)
    }
    assert len(texts) > 1


@by_architecture
@pytest.mark.parametrize("bonus", get_args(BonusMode))
def test_strict_is_plain_greedy_decoding(architecture: str, bonus: str) -> None:
    engine = tiny_engine(architecture)
    for seed in range(2):
        both = views(seed)
        expected = greedy(architecture, both[1], LENGTH)
        for k in (1, 4):
            strict = run(engine, both, max_tokens=LENGTH, mode="strict", bonus=bonus, num_draft_tokens=k)
            assert strict.tokens == expected
            assert (strict.report.mode, strict.report.fallback) == ("strict", None)
        floor = run(engine, both, arm="floor", max_tokens=LENGTH)
        assert floor.tokens == expected
        assert run(engine, both, arm="ceiling", max_tokens=LENGTH).tokens == greedy(
            architecture, both[0], LENGTH
        )
        assert run(engine, both, arm="drafter", max_tokens=LENGTH).tokens == greedy(
            architecture, both[0], LENGTH, "drafter"
        )


@by_architecture
def test_strict_is_what_transformers_generates(architecture: str) -> None:
    verifier, _ = pair(architecture)
    both = views(2)
    ids = torch.tensor([both[1]])
    generated = verifier.module.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=LENGTH,
        min_new_tokens=LENGTH,
    )
    result = run(tiny_engine(architecture), both, max_tokens=LENGTH, mode="strict")
    assert result.tokens == generated[0, len(both[1]) :].tolist()


@by_architecture
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "strict"])
def test_identical_views_decode_strict(architecture: str, mode: str) -> None:
    full, _ = views(0)
    result = run(tiny_engine(architecture), (full, list(full)), max_tokens=12, mode=mode, gamma=0.0)
    assert (result.report.mode, result.report.fallback) == ("strict", "identical_views")
    assert result.tokens == greedy(architecture, full, 12)
    assert result.report.cached_tokens.base == 0


@by_architecture
def test_identical_views_may_keep_the_gate(architecture: str) -> None:
    full, _ = views(0)
    options = AsymSpecOptions.of(identical_views="gate", gamma=1.1)
    engine = tiny_engine(architecture)
    result = run(engine, (full, full), max_tokens=LENGTH, identical_views="gate", gamma=1.1)
    assert (result.report.mode, result.report.fallback) == ("asymspec", None)
    seen = Comparison()
    compare(result, naive_asymspec(architecture, (full, full), options), seen)
    assert result.report.mean_divergence == 0.0
    kept = run(engine, (full, full), max_tokens=LENGTH, identical_views="gate", gamma=0.0)
    assert kept.tokens != greedy(architecture, full, LENGTH)  # gamma 0 lets the drafter write
    assert kept.tokens == greedy(architecture, full, LENGTH, "drafter")


@by_architecture
def test_strict_asked_for_by_name_is_no_fallback(architecture: str) -> None:
    full, _ = views(0)
    result = run(tiny_engine(architecture), (full, full), max_tokens=4, mode="strict")
    assert (result.report.mode, result.report.fallback) == ("strict", None)


def test_full_views_may_be_shorter_than_compressed_ones() -> None:
    full, compressed = views(0)
    seen = Comparison()
    options = AsymSpecOptions.of(gamma=1.0)
    for both in ((compressed, full), (full[:1], compressed), (full, compressed[:1])):
        result = run(tiny_engine(), both, max_tokens=LENGTH, gamma=1.0)
        compare(result, naive_asymspec("qwen2", both, options), seen)
    seen.check_excuses()


@by_architecture
def test_the_delta_is_live_from_the_first_token(architecture: str) -> None:
    """The first token is the rule's, not the verifier's: the score picks it already there."""
    engine = tiny_engine(architecture)
    differing = 0
    for seed in range(8):
        both = views(seed)
        first = run(engine, both, max_tokens=1, mode="fused_greedy", beta=2.0).tokens[0]
        plain = greedy(architecture, both[1], 1)[0]
        verifier, drafter = pair(architecture)
        t, b = (uncached_logits(m, both[1])[-1].double().log_softmax(-1) for m in (verifier, drafter))
        a = uncached_logits(drafter, both[0])[-1].double().log_softmax(-1)
        assert first == int((t + 2.0 * (a - b)).argmax())
        differing += first != plain
    assert differing >= 2


@by_architecture
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("bonus", get_args(BonusMode))
def test_counts_add_up(architecture: str, arm: str, bonus: BonusMode) -> None:
    k = 3
    result = run(
        tiny_engine(architecture),
        views(1),
        arm=arm,
        max_tokens=17,
        bonus=bonus,
        num_draft_tokens=k,
        gamma=1.0,
    )
    report = result.report
    emitted = report.accepted + report.fused + report.bonus
    assert emitted >= result.outcome.num_tokens == len(result.tokens) == 17
    assert emitted - 17 <= k  # only the last block is trimmed
    assert report.blocks == len(result.steps)
    assert sum(report.accepted_per_position) == report.accepted
    drafts = arm not in ("floor", "ceiling", "drafter")
    assert report.drafted == report.blocks * (k + (bonus == "rule")) * drafts
    if drafts:
        assert len(report.accepted_per_position) == k + (bonus == "rule")
        assert (report.bonus > 0) <= (bonus == "verifier")
    else:
        assert (report.accepted, report.fused, report.bonus) == (0, 0, 17)
    assert result.outcome.finish_reason == "length"


@pytest.mark.parametrize("max_tokens", range(1, 9))
def test_max_tokens_cuts_the_same_text(max_tokens: int) -> None:
    engine = tiny_engine()
    whole = run(engine, views(1), max_tokens=12, num_draft_tokens=4).tokens
    cut = run(engine, views(1), max_tokens=max_tokens, num_draft_tokens=4)
    assert cut.tokens == whole[:max_tokens]
    assert len(cut.text) == max_tokens


@by_architecture
def test_a_stop_string_over_any_border_of_blocks(architecture: str) -> None:
    engine = tiny_engine(architecture)
    text = run(engine, views(1), max_tokens=20, num_draft_tokens=2).text
    stops_in_block, stops_over_border = 0, 0
    for at in range(2, 16):
        stop = text[at : at + 3]
        result = run(engine, views(1), max_tokens=20, num_draft_tokens=2, stop=(stop,))
        assert result.text == text[: text.find(stop)]
        assert result.outcome.finish_reason == "stop"
        assert len(result.tokens) == text.find(stop) + 3
        is_whole = len(result.steps[-1].tokens) >= 3
        stops_in_block, stops_over_border = stops_in_block + is_whole, stops_over_border + (not is_whole)
    assert stops_in_block > 0
    assert stops_over_border > 0


@pytest.mark.parametrize("bonus", get_args(BonusMode))
@pytest.mark.parametrize("arm", ["asymspec", "floor", "symmetric_full"])
def test_nothing_comes_after_eos(arm: str, bonus: BonusMode, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine()
    whole = run(engine, views(1), arm=arm, max_tokens=20, bonus=bonus, num_draft_tokens=4).tokens
    for at in range(0, 12, 3):
        eos = whole[at]
        monkeypatch.setattr(engine.models["verifier"], "eos_token_ids", frozenset({eos, 1000}))
        result = run(engine, views(1), arm=arm, max_tokens=20, bonus=bonus, num_draft_tokens=4)
        assert result.tokens == whole[: whole.index(eos) + 1]
        assert result.outcome.finish_reason == "stop"
        assert len(result.text) == len(result.tokens) - 1


def test_ids_beyond_the_tokenizer_are_never_emitted() -> None:
    """A padded vocabulary: the models' last ids exist in no tokenizer."""
    engine = tiny_engine()
    engine.vocab_size = 20
    for options in ({"gamma": 1.0}, {"mode": "product"}, {"bonus": "verifier"}, {"mode": "strict"}):
        result = run(engine, views(0), max_tokens=30, **options)
        assert max(result.tokens) < 20
    for arm in ("floor", "drafter", "scd"):
        assert max(run(engine, views(0), arm=arm, max_tokens=30).tokens) < 20
