"""The plugin on vLLM's first model runner, on a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .engines import TinyEngine, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness")

from .exactness import ROOMY, Engines, Exactness  # noqa: E402
from .models import save_pair  # noqa: E402
from .oracle import Oracle, tiny_oracle  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # vLLM's own warnings


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """vLLM with engine and worker in this process, on its first runner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        patch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
        patch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
        yield TinyEngine


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory, engines: Engines) -> Iterator[TinyEngine]:
    engine = engines(save_pair(tmp_path_factory.mktemp("pair")), ROOMY)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return tiny_oracle("qwen2")


class TestFirstRunner(Exactness):
    """All of them."""
