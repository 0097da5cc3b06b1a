"""The plugin on vLLM's first model runner, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .engines import TinyEngine, first_runner, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness")

from .exactness import ROOMY, Engines, Exactness  # noqa: E402
from .models import save_pair  # noqa: E402
from .oracle import Oracle, tiny_oracle  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # vLLM's own warnings


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """vLLM with engine and worker in this process, on its first runner."""
    with first_runner():
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
