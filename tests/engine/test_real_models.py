"""Exactness on real models in fp32: the cached engine against forwards without any cache."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from asymspec_agents.engine.load import LoadedPair, load_pair
from asymspec_agents.engine.prefix import common_length
from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.trace import MemoryRecorder
from benchmarks.passages import passages
from tests.presets import preset_folder

from .naive import Comparison, Naive, Reader, Rows, compare
from .runs import run
from .turns import History, last_request, last_response

pytestmark = pytest.mark.full

NUM_TOKENS = 64
GENERATION_PROMPT_TOKENS = 3  # <|im_start|>, assistant, newline
QUESTION = "Summarise what you have read in a few sentences."


@contextmanager
def loaded(verifier: str, drafter: str) -> Iterator[LoadedPair]:
    """The presets in fp32, out of memory afterwards; skips where they are not cached."""
    folders = [preset_folder(name) for name in (verifier, drafter)]
    pair = load_pair(folders[0], folders[1], dtype="float32", device="cpu")
    try:
        yield pair
    finally:
        pair.engine.prefixes.clear()
        pair.engine.models.clear()
        del pair
        gc.collect()


@functools.cache
def documents() -> list[str]:
    return passages(4)


def views_of(pair: LoadedPair) -> tuple[list[int], list[int]]:
    """Passages in full, and their first sentences."""
    texts = [document[:500] for document in documents()[:2]]

    def prompt(parts: list[str]) -> list[int]:
        content = "\n\n".join([*parts, QUESTION])
        return pair.template.ids([Message(role="user", content=content)])

    return prompt(texts), prompt([text[:80] for text in texts])


def check(pair: LoadedPair, rows: dict[str, Rows], **options: Any) -> Comparison:
    """Decodes at least 64 tokens and compares them with rows from whole uncached forwards."""
    engine = pair.engine
    full, compressed = (tuple(view) for view in views_of(pair))
    chosen = AsymSpecOptions.of(**options)
    rule = chosen.rule()
    result = run(engine, (list(full), list(compressed)), max_tokens=NUM_TOKENS, **options)
    readers = {
        "verifier": Reader(rows["verifier"], compressed),
        "drafter": Reader(rows["drafter"], full),
        "base": Reader(rows["drafter"], compressed),
    }
    for reader in readers.values():  # causal: a row of the whole text is that of its own prefix
        reader.rows.prime((*reader.prompt, *result.tokens), len(reader.prompt))
    naive = Naive(
        rule,
        chosen.num_draft_tokens,
        chosen.bonus,
        engine.vocab_size,
        readers["verifier"],
        readers["drafter"],
        readers["base"] if rule.needs_base else None,
    )
    seen = Comparison()
    compare(result, naive, seen)
    seen.check_excuses()
    assert seen.num_tokens == NUM_TOKENS
    return seen


def rows_of(pair: LoadedPair) -> dict[str, Rows]:
    return {role: Rows(model.module) for role, model in pair.engine.models.items()}


def test_one_small_model_in_both_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """t == b then: γ ≤ 1 accepts everything, 1 < γ < 2 mixes, 2 refuses all."""
    with loaded("smollm2-135m", "smollm2-135m") as pair:
        monkeypatch.setattr(pair.engine.models["verifier"], "eos_token_ids", frozenset())
        rows = rows_of(pair)
        mixed = check(pair, rows, gamma=1.15)
        assert mixed.num_accepted > 0
        assert mixed.num_refused > 0
        assert check(pair, rows, gamma=2.0).num_accepted == 0
        assert check(pair, rows, gamma=1.0).num_refused == 0
        check(pair, rows, gamma=1.15, num_draft_tokens=4, bonus="verifier")


def test_the_default_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b") as pair:
        monkeypatch.setattr(pair.engine.models["verifier"], "eos_token_ids", frozenset())
        rows = rows_of(pair)
        for options in ({}, {"mode": "scaled", "num_draft_tokens": 4}):
            seen = check(pair, rows, **options)
            assert seen.num_accepted > 0
            assert seen.num_refused > 0


def test_ten_turns_through_a_real_template() -> None:
    """Each view recomputes what its tokens share with no earlier call, whatever the template does."""
    with loaded("smollm2-135m", "smollm2-135m") as pair:
        recorder = MemoryRecorder()
        engine = pair.engine
        engine.recorder = recorder
        system = Message(role="system", content="You answer from the tools' results.")
        full, short = [system], [system]
        previous = 0
        history = History(recorder)
        for turn in range(10):
            output = documents()[turn % 4][turn : turn + 300]
            full.append(Message(role="user", content=f"Result {turn}: {output}"))
            short.append(Message(role="user", content=f"Result {turn}: {output[:60]}"))
            views = pair.template.ids(full), pair.template.ids(short)
            result = run(engine, views, max_tokens=12, gamma=1.15)
            prompts = {"verifier": views[1], "drafter": views[0], "base": views[1]}
            cached = last_request(recorder).cached_tokens
            for role, prompt in prompts.items():  # one model plays both roles, so all readers share
                assert getattr(cached, role) >= history.expected("drafter", prompt), role
                computed = getattr(last_response(recorder).forwarded_tokens, role)
                # The base view also begins with what the full view of the same call has read.
                shared = common_length(prompt[:-1], views[0][:-1]) if role == "base" else 0
                known = max(getattr(cached, role), shared)
                num_read = len(prompt) - 1 - known + 3 * result.report.blocks
                assert computed == num_read, role
            for prompt in prompts.values():
                history.read["drafter"].append([*prompt, *result.tokens[:-1]])
            assert cached.drafter >= previous  # at least the whole prompt of the turn before
            previous = len(views[0]) - GENERATION_PROMPT_TOKENS
            for messages in (full, short):
                messages.append(Message(role="assistant", content=result.text))
