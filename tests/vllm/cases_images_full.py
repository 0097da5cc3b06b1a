"""A drafter that sees, on two ranks and compiled, for the processes that test_exact_images.py starts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.vision_exactness")

from .engines import TinyEngine  # noqa: E402
from .vision_engines import Eyes  # noqa: E402
from .vision_exactness import SEEING, ids, judge, random_scene  # noqa: E402
from .vision_models import KINDS, save_vision_pair  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

TWO_RANKS = {
    "tensor_parallel_size": 2,
    "distributed_executor_backend": "mp",
    "speculative_config": {"draft_tensor_parallel_size": 2},
}


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen3_vl"])
@pytest.mark.parametrize(
    ("threads", "arguments"),
    [("0|1", TWO_RANKS), ("nobind", {"enforce_eager": False})],
    ids=["two-ranks", "compiled"],
)
def test_images(
    name: str, threads: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", threads)
    rng, kind = random.Random(1), KINDS[name]
    engine = TinyEngine(save_vision_pair(tmp_path, kind), SEEING, **arguments)
    try:
        eyes = Eyes(engine, kind)
        scenes = [random_scene(kind, rng, index % 3) for index in range(9)]
        asks = [eyes.ask(shown, ids(rng, rng.randint(3, 60))) for shown in scenes]
        judge(kind, list(zip(scenes, asks, engine.answer(asks), strict=True)))
    finally:
        engine.close()
