"""Drafters of the kinds that import torchvision: tests for the processes that test_exact_images.py starts.

Where the real package doesn't fit the machine's PyTorch, its place is taken by vision_stub.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.vision_exactness")

from .engines import TinyEngine, first_runner  # noqa: E402
from .exactness import Engines  # noqa: E402
from .vision_exactness import SEEING, VisionExactness  # noqa: E402
from .vision_models import KINDS, Kind, save_vision_pair  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
        yield functools.partial(TinyEngine, async_scheduling=True)
        return
    with first_runner():
        yield TinyEngine


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory, engines: Engines, kind: Kind) -> Iterator[TinyEngine]:
    engine = engines(save_vision_pair(tmp_path_factory.mktemp("pair"), kind), SEEING)
    yield engine
    engine.close()


class TestGrids(VisionExactness):
    """All of them; the last one makes an engine of its own, which ends `roomy`."""
