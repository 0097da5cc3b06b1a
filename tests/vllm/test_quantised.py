"""Quantised models on either side: by gate `strict` the answer is the verifier's own, whatever the drafter.

What a quantised model says exactly depends on vLLM's kernels, so the reference engine is no oracle for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from .engines import Ask, TinyEngine, first_runner, needs_vllm, views
from .models import NUM_IDS, save_pair
from .quantised import int8_copy

needs_vllm()
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", params=["verifier", "drafter", "both"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyEngine]:
    folder = tmp_path_factory.mktemp("quantised")
    verifier, drafter = save_pair(folder)
    if request.param != "drafter":
        verifier = int8_copy(verifier, folder / "verifier-int8")
    if request.param != "verifier":
        drafter = int8_copy(drafter, folder / "drafter-int8")
    with first_runner():
        engine = TinyEngine((verifier, drafter), {"pool_bytes": 4_000_000})
        yield engine
        engine.close()


def test_strict_is_the_verifiers_own_answer(engine: TinyEngine) -> None:
    rng = random.Random(0)
    pairs = [views(rng, num_full, num_full // 3) for num_full in (30, 90, 200)]
    strict = [Ask(compressed, full, {"mode": "strict"}) for full, compressed in pairs]
    same_ids = {"allowed_token_ids": list(range(NUM_IDS))}  # AsymSpec never emits what pads the vocabulary
    plain = [Ask(compressed, sampling=same_ids) for _, compressed in pairs]
    for asked, own in zip(engine.answer(strict), engine.answer(plain), strict=True):
        assert asked.tokens == own.tokens
        assert asked.report is not None
        assert asked.report["drafted"] > 0


def test_drafts_of_a_quantised_model_stand(engine: TinyEngine) -> None:
    rng = random.Random(1)
    full, _ = views(rng, 100, 30)
    (answer,) = engine.answer([Ask(full, full, {"mode": "strict"}, max_tokens=40)])
    assert answer.report is not None
    assert answer.report["accepted"] > 0
