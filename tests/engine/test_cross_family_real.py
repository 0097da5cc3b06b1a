"""Real models of two families in fp32: exact against forwards without a cache, the same bytes for both."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from asymspec_agents.decoding.coverage import coverage
from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES, Transcriber
from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.engine.load import LoadedPair, load_pair, load_speller
from asymspec_agents.engine.prefix import common_length
from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecOptions
from tests.presets import preset_folder

from .naive import Comparison, Naive, Reader, Rows, compare
from .two_families import ForeignReader, run

pytestmark = pytest.mark.full

PAIRS = [("qwen2.5-coder-0.5b", "smollm2-135m"), ("smollm2-135m", "qwen2.5-coder-0.5b")]
FACTS = "On 12 March 2024 the ship Oryntha left with 1,250 crates for Świnoujście (Szczecin), price: 89.99 €."
TASK = "Repeat every fact of this as JSON with the keys date, ship, crates, port and price."
NUM_TOKENS = 32
TEXTS = [
    "東京で会いましょう。你好,世界。안녕하세요 שלום مرحبا नमस्ते 🙂👍🏽👩‍👩‍👧",
    "def f(x):\n    return {'a': [1, 22, 333], \"b\": x}\n\n\n  done",
    "Donaudampfschifffahrtsgesellschaft, pneumonoultramicroscopic; e\u0301\u0323 I'm can't",
]


@pytest.fixture(scope="module", params=PAIRS, ids=["qwen from smollm", "smollm from qwen"])
def pair(request: pytest.FixtureRequest) -> Iterator[LoadedPair]:
    verifier, drafter = (preset_folder(name) for name in request.param)
    loaded = load_pair(verifier, drafter, dtype="float32", device="cpu", vocab_map="auto")
    yield loaded
    loaded.engine.prefixes.clear()
    loaded.engine.models.clear()
    del loaded
    gc.collect()


def _views(pair: LoadedPair) -> dict[str, list[int]]:
    assert pair.drafter_template is not None
    full, short = ([Message(role="user", content=text)] for text in (f"{FACTS} {TASK}", TASK))
    return {
        "full": pair.template.ids(full),
        "compressed": pair.template.ids(short),
        "drafter_full": pair.drafter_template.ids(full),
        "drafter_compressed": pair.drafter_template.ids(short),
    }


def _transcriber(pair: LoadedPair) -> Transcriber:
    assert pair.engine.family is not None
    return pair.engine.family.transcriber


@pytest.mark.parametrize("options", [{}, {"gamma": 1.0, "num_draft_tokens": 4}], ids=str)
def test_every_block_is_that_of_the_decoder_without_caches(pair: LoadedPair, options: dict[str, Any]) -> None:
    views, writing, chosen = _views(pair), _transcriber(pair), AsymSpecOptions.of(**options)
    result = run(pair.engine, views, max_tokens=NUM_TOKENS, **options)
    large, small = (Rows(pair.engine.models[role].module) for role in ("verifier", "drafter"))
    own = writing.begin()
    own.push(result.tokens)
    readers = [ForeignReader(small, views[name], writing) for name in ("drafter_full", "drafter_compressed")]
    large.prime((*views["compressed"], *result.tokens), len(views["compressed"]))
    for name in ("drafter_full", "drafter_compressed"):
        small.prime((*views[name], *own.tokens), len(views[name]))
    naive = Naive(
        chosen.rule(),
        chosen.num_draft_tokens,
        chosen.bonus,
        pair.engine.vocab_size,
        verifier=Reader(large, tuple(views["compressed"])),
    )
    seen = Comparison()
    compare(result, replace(naive, drafter=readers[0], base=readers[1]), seen)  # type: ignore[arg-type]
    seen.check_excuses()
    assert seen.num_accepted > 0
    assert seen.num_refused > 0


def test_both_have_the_same_bytes_after_every_block_and_little_is_read_again(pair: LoadedPair) -> None:
    writing, views = _transcriber(pair), _views(pair)
    for answer in [*(run(pair.engine, views, gamma=gamma, max_tokens=24).tokens for gamma in (0.5, 1.5))]:
        _follow(writing, [answer[i : i + 3] for i in range(0, len(answer), 3)])
    for text in TEXTS:
        ids = pair.template.tokenizer.encode(text, add_special_tokens=False)
        _follow(writing, [[token] for token in ids])


def _follow(writing: Transcriber, blocks: list[list[int]]) -> None:
    transcript, committed = writing.begin(), list[int]()
    special = writing.drafter.special
    for block in blocks:
        before = list(transcript.tokens)
        transcript.push(block)
        committed += block
        assert len(before) - common_length(before, transcript.tokens) <= MAX_TAIL_BYTES
        if not special & set(transcript.tokens):
            assert writing.drafter.spelled(transcript.tokens) == writing.verifier.spelled(committed)


def test_the_text_does_not_depend_on_the_number_of_drafts(pair: LoadedPair) -> None:
    texts = {
        tuple(run(pair.engine, _views(pair), num_draft_tokens=k, bonus=bonus, max_tokens=16).tokens)
        for k, bonus in ((1, "rule"), (2, "rule"), (4, "none"), (8, "rule"))
    }
    assert len(texts) == 1


def test_strict_is_the_verifiers_own_text(pair: LoadedPair) -> None:
    views = _views(pair)
    assert (
        run(pair.engine, views, mode="strict", max_tokens=24).tokens
        == run(pair.engine, views, arm="floor", max_tokens=24).tokens
    )


@pytest.mark.parametrize(("verifier", "drafter"), PAIRS)
def test_what_the_maps_cover(verifier: str, drafter: str) -> None:
    """The figures of the documentation."""
    large, small = (load_speller(preset_folder(name)) for name in (verifier, drafter))
    vocab_map = VocabMap.build(large.vocabulary, small.vocabulary)
    found = coverage(vocab_map, large, small)
    assert found.num_mapped == 39_237
    of_qwen, of_smollm = (0.259, 0.790, 0.707), (0.798, 0.990, 0.979)
    mine = (found.verifier_ids, found.verifier_tokens, found.verifier_bytes)
    theirs = (found.drafter_ids, found.drafter_tokens, found.drafter_bytes)
    expected = (of_qwen, of_smollm) if verifier.startswith("qwen") else (of_smollm, of_qwen)
    assert mine == pytest.approx(expected[0], abs=5e-4)
    assert theirs == pytest.approx(expected[1], abs=5e-4)
    assert ("<|im_end|>", "<|im_end|>") in found.roles
