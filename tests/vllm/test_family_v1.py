"""A drafter of another family on vLLM's first model runner, on a CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from asymspec_agents.decoding.modes import MODES
from vllm_asymspec.tools.pad_drafter import pad_drafter

from .engines import Ask, TinyEngine, check, first_runner, needs_vllm, views

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.family_exactness")

from .exactness import Engines  # noqa: E402
from .family_exactness import FamilyExactness, Sizes  # noqa: E402
from .models import VOCAB, save_pair  # noqa: E402
from .oracle import Seen, tiny_oracle  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # vLLM's own warnings


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """vLLM with engine and worker in this process, on its first runner."""
    with first_runner():
        yield TinyEngine


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    """Each model has the rows it needs, the drafter fewer than the verifier or more."""
    return {("words", "digits"): (640, 448), ("digits", "words"): (448, 640), ("words", "pieces"): (640, 704)}


class TestFirstRunner(FamilyExactness):
    """All of them."""

    @pytest.mark.parametrize("is_verifier_larger", [False, True])
    def test_one_vocabulary_padded_in_two_ways_needs_no_map(
        self, engines: Engines, tmp_path: Path, is_verifier_larger: bool
    ) -> None:
        """It is found to be the same, and the pair decodes as ever."""
        verifier, drafter = save_pair(tmp_path)
        padded = tmp_path / "padded"
        pad_drafter(verifier if is_verifier_larger else drafter, padded, VOCAB + 16)
        folders = (padded, drafter) if is_verifier_larger else (verifier, padded)
        rng = random.Random(4)
        asks = [Ask(*reversed(views(rng, 100, 30)), {"mode": mode}) for mode in MODES]
        engine = engines(
            folders,
            {"vocab_map": "auto", "pool_bytes": 16 << 20},
            speculative_config={"use_heterogeneous_vocab": True},
        )
        try:
            seen = Seen()
            for ask, answer in zip(asks, engine.answer(asks), strict=True):
                check(ask, answer, tiny_oracle("qwen2"), seen)
                assert answer.report is not None
                assert answer.report["cross_family"] is None
            seen.check_excuses()
        finally:
            engine.close()
