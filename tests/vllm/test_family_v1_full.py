"""A drafter of another family on vLLM's first model runner, in ways that take long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .engines import K, TinyEngine, first_runner, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.family_exactness")

from .exactness import Engines  # noqa: E402
from .family_exactness import Own, family_engine  # noqa: E402
from .family_models import Pair  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # vLLM's own warnings

TWO_RANKS = {
    "tensor_parallel_size": 2,
    "distributed_executor_backend": "mp",
    "speculative_config": {"draft_tensor_parallel_size": 2},
}


@pytest.fixture
def engines() -> Iterator[Engines]:
    with first_runner():
        yield TinyEngine


@pytest.mark.parametrize(
    ("threads", "arguments"),
    [("0|1", TWO_RANKS), ("nobind", {"enforce_eager": False})],
    ids=["two-ranks", "compiled"],
)
def test_small_pair(
    engines: Engines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: str,
    arguments: dict[str, object],
) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", threads)
    rng = random.Random(1)
    pair = Pair(tmp_path, ("words", "digits"), (640, 448), is_thin=True)
    engine = family_engine(engines, pair, {"pool_bytes": 16 << 20, "prefill_tokens": 48}, **arguments)
    try:
        own = Own(pair, engine)
        asks = [
            own.ask(
                rng,
                rng.randint(1, 300),
                rng.randint(1, 80),
                {"num_draft_tokens": 1 + i % K, "mode": ("asymspec", "scaled", "cda_only", "strict")[i % 4]},
                max_tokens=40,
            )
            for i in range(12)
        ]
        own.check(asks, engine.answer(asks))
    finally:
        engine.close()
