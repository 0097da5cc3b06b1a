"""The plugin on vLLM's first model runner where it takes long."""

from __future__ import annotations

import pytest

from .engines import TinyEngine, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness_full")

from .exactness import Engines  # noqa: E402
from .exactness_full import LongExactness  # noqa: E402

# vLLM's own warnings are ignored.
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    """vLLM with its engine in this process, on its first runner."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    return TinyEngine


class TestFirstRunner(LongExactness):
    """All of them."""
