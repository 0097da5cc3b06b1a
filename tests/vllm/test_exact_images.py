"""A drafter that sees, on vLLM's first model runner, of a kind that needs no torchvision; the others below."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .engines import TinyEngine, first_runner, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.vision_exactness")

from .exactness import Engines  # noqa: E402
from .vision_exactness import SEEING, VisionExactness  # noqa: E402
from .vision_models import KINDS, Kind, save_vision_pair  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # vLLM's own warnings


@pytest.fixture(scope="module")
def kind() -> Kind:
    return KINDS["idefics3"]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with first_runner():
        yield TinyEngine


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory, engines: Engines, kind: Kind) -> Iterator[TinyEngine]:
    engine = engines(save_vision_pair(tmp_path_factory.mktemp("pair"), kind), SEEING)
    yield engine
    engine.close()


class TestTiles(VisionExactness):
    """All of them; the last one makes an engine of its own, which ends `roomy`."""
