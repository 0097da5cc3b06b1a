"""Whole answers under a grammar: every arm against a decoder without caches whose verifier is masked."""

from __future__ import annotations

import functools
import json
from typing import Any, get_args

import pytest
import torch

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.engine.engine import Engine
from asymspec_agents.engine.grammar import Grammar, GrammarSource
from asymspec_agents.engine.loop import Readers, blocks
from asymspec_agents.engine.sampling import Sampler, Sampling
from asymspec_agents.engine.view import View
from asymspec_agents.protocol import AsymSpecOptions

from .fresh import check_view
from .grammars import NUM_IDS, MaskedReader, compiler, fits, json_grammar
from .naive import Comparison, Naive, Reader, Rows, compare
from .runs import Run, run
from .settings import ARM_READERS
from .tiny_folder import random_backend

NO_EOS: frozenset[int] = frozenset()
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["red", "reddish", "green"]},
        "words": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 2, "maxItems": 2},
    },
    "required": ["kind", "words"],
    "additionalProperties": False,
}
MAX_TOKENS = 120


@functools.cache
def engine() -> Engine:
    return random_backend().engine


@functools.cache
def rows(role: str) -> Rows:
    return Rows(engine().models[role].module)


@functools.cache
def grammar() -> Grammar:
    """Of the schema, without white space, which random models write at length."""
    compact = {**SCHEMA, "x-guidance": {"whitespace_flexible": False}}
    return compiler().compile(GrammarSource("test", f"start: %json {json.dumps(compact)}"))


def prompts(seed: int) -> tuple[list[int], list[int]]:
    generator = torch.Generator().manual_seed(seed)
    full = torch.randint(0, 256, (40,), generator=generator).tolist()
    return full, full[:4] + full[25:]


def naive(
    seed: int,
    rule: Rule,
    options: AsymSpecOptions,
    readers: Any = (("L", "compressed"), ("S", "full"), ("S", "compressed")),
    eos: frozenset[int] = NO_EOS,
) -> Naive:
    """The reference with a masked verifier; `readers` are verifier, drafter and base as (model, view)."""
    full, compressed = prompts(seed)
    role = {"L": "verifier", "S": "drafter"}
    verifier, drafter, base = (
        None
        if reading is None
        else Reader(rows(role[reading[0]]), tuple(full if reading[1] == "full" else compressed))
        for reading in readers
    )
    masked: Any = MaskedReader(verifier, grammar(), eos)
    return Naive(rule, options.num_draft_tokens, options.bonus, NUM_IDS, masked, drafter, base)


def document(result: Run) -> Any:
    """The answer's document, which must be whole."""
    assert result.outcome.finish_reason == "stop"
    found = json.loads(result.text)
    assert fits(found, SCHEMA)
    return found


@pytest.mark.parametrize("bonus", get_args(BonusMode))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 1.0, "beta": 2.0},
        {"gamma": 0.01, "agreement": True},
        {"mode": "fused_greedy", "beta": 2.0},
        {"mode": "product"},
        {"mode": "scaled"},
        {"mode": "fixed_gate", "gamma": 1.0},
        {"mode": "scd_delta", "plausibility": 0.1},
        {"mode": "scd_delta", "beta": 0.0},
        {"mode": "raw_full"},
        {"gate": "position", "delta": "context", "gamma": 1.0},
        {"gate": "slack", "delta": "none", "slack": 0.2},
        {"mode": "strict"},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "default",
)
def test_every_rule_under_a_grammar_is_the_naive_one(options: dict[str, Any], bonus: str) -> None:
    seen = Comparison()
    for k in {"rule": (1, 4), "verifier": (3,), "none": (2,)}[bonus]:
        chosen = AsymSpecOptions.of(bonus=bonus, num_draft_tokens=k, **options)
        result = run(
            engine(),
            prompts(k),
            max_tokens=MAX_TOKENS,
            grammar=grammar(),
            bonus=bonus,
            num_draft_tokens=k,
            **options,
        )
        rule = chosen.rule()
        readers = (("L", "compressed"), ("S", "full"), ("S", "compressed") if rule.needs_base else None)
        compare(result, naive(k, rule, chosen, readers), seen)
        document(result)
    seen.check_excuses()
    assert min(seen.num_refused, seen.num_accepted) > 0


@pytest.mark.parametrize("arm", [name for name in ARMS if name != "asymspec"])
def test_every_arm_under_a_grammar_is_the_naive_one(arm: str) -> None:
    options = AsymSpecOptions.of(num_draft_tokens=3)
    verifying, drafting = ARM_READERS[arm]
    is_scd = arm == "scd"
    rule = Rule("fused_greedy", "scd", plausibility=0.1) if is_scd else Rule("strict", "none")
    seen = Comparison()
    result = run(engine(), prompts(0), arm=arm, max_tokens=MAX_TOKENS, grammar=grammar(), num_draft_tokens=3)
    compare(result, naive(0, rule, options, (verifying, drafting, drafting if is_scd else None)), seen)
    seen.check_excuses()
    document(result)


@pytest.mark.parametrize("mode", ["asymspec", "scaled", "product", "strict"])
def test_the_text_is_the_same_for_every_block_length(mode: str) -> None:
    texts = {
        tuple(
            run(
                engine(),
                prompts(2),
                max_tokens=MAX_TOKENS,
                grammar=grammar(),
                mode=mode,
                bonus=bonus,
                num_draft_tokens=k,
            ).tokens
        )
        for bonus, k in (("rule", 1), ("rule", 2), ("rule", 3), ("rule", 8), ("none", 1), ("none", 4))
    }
    assert len(texts) == 1


def test_strict_is_the_floor_and_identical_views_are_lossless() -> None:
    for seed in range(3):
        floor = run(engine(), prompts(seed), arm="floor", max_tokens=MAX_TOKENS, grammar=grammar())
        strict = run(engine(), prompts(seed), mode="strict", max_tokens=MAX_TOKENS, grammar=grammar())
        assert strict.tokens == floor.tokens
        short = prompts(seed)[1]
        same = run(engine(), (short, short), max_tokens=MAX_TOKENS, grammar=grammar())
        assert same.tokens == floor.tokens
        assert (same.report.mode, same.report.fallback) == ("strict", "identical_views")
        assert floor.tokens != run(engine(), prompts(seed), arm="floor", max_tokens=len(floor.tokens)).tokens


def test_sampled_answers_keep_to_the_grammar_and_are_drawn_from_what_it_allows() -> None:
    masked = naive(1, Rule("strict", "none"), AsymSpecOptions(), (("L", "full"), None, None)).verifier
    found = set()
    for seed in range(6):
        result = run(
            engine(),
            prompts(1),
            arm="ceiling",
            max_tokens=MAX_TOKENS,
            grammar=grammar(),
            sampling=Sampling(1.0, 0.95, seed),
        )
        found.add(json.dumps(document(result)))
        sampler, text = Sampler(Sampling(1.0, 0.95, seed), NUM_IDS), list[int]()
        while len(text) < len(result.tokens):
            text.append(sampler.draw(torch.from_numpy(masked(text, NUM_IDS))[None, None]))
        assert result.tokens == text
    assert len(found) > 3


@pytest.mark.parametrize("arm", ["asymspec", "floor", "symmetric_full"])
def test_max_tokens_cuts_the_same_text(arm: str) -> None:
    whole = run(engine(), prompts(3), arm=arm, max_tokens=MAX_TOKENS, grammar=grammar()).tokens
    for length in (1, 2, len(whole) - 1, len(whole)):
        cut = run(engine(), prompts(3), arm=arm, max_tokens=length, grammar=grammar())
        assert cut.tokens == whole[:length]
        assert cut.outcome.finish_reason == ("stop" if length == len(whole) else "length")


@pytest.mark.parametrize("arm", ["asymspec", "floor", "rapid"])
@pytest.mark.parametrize("bonus", get_args(BonusMode))
def test_an_answer_that_may_end_ends_with_eos(arm: str, bonus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A positive integer has no last digit: the model has to say where it ends."""
    for model in engine().models.values():
        monkeypatch.setattr(model, "eos_token_ids", frozenset({257}))
    integer = json_grammar({"type": "integer", "minimum": 1})
    ended = 0
    for seed in range(8):
        result = run(
            engine(),
            prompts(seed),
            arm=arm,
            max_tokens=30,
            grammar=integer,
            bonus=bonus,
            num_draft_tokens=3,
        )
        if result.outcome.finish_reason == "stop":
            ended += 1
            assert result.tokens[-1] == 257
            assert result.tokens.count(257) == 1
        assert str(int(result.text)) == result.text
    assert ended > 0


def test_caches_stay_exact_under_a_grammar() -> None:
    """Forbidden drafts are rolled back like any other."""
    both = prompts(4)
    models = engine().models
    views = [
        View(models["verifier"], both[1]),
        View(models["drafter"], both[0]),
        View(models["drafter"], both[1]),
    ]
    for view in views:
        view.prefill(lambda: None)
    matcher = grammar().start(NO_EOS, NUM_IDS)
    committed: list[int] = []
    for block in blocks(Readers(*views), Rule(gamma=0.1), 3, "rule", NUM_IDS, matcher=matcher):
        committed.extend(block.tokens)
        for view in views:
            check_view(view, committed)
        if block.complete_at is not None or len(committed) > 60:
            break
    else:
        pytest.fail("blocks end only when told to")
