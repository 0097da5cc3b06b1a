"""A drafter that sees: a kind that needs no torchvision here, the others in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from .engines import TinyEngine, first_runner, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.vision_exactness")

from .exactness import Engines  # noqa: E402
from .interpreter import run_tests  # noqa: E402
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


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("qwen2_5_vl", "llava")]


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen3_vl", *SLOW])
def test_positions_of_three_dimensions_on_the_first_runner(name: str) -> None:
    run_tests("cases_images.py", "-k", name, runner=1)


@pytest.mark.skipif(find_spec("triton") is None, reason="vLLM's second model runner needs Triton")
@pytest.mark.parametrize("name", ["qwen2_vl", pytest.param("qwen3_vl", marks=pytest.mark.slow)])
def test_positions_of_three_dimensions_on_the_second_runner(name: str) -> None:
    run_tests("cases_images.py", "-k", name, runner=2)


@pytest.mark.slow
def test_two_ranks_and_compiled_models() -> None:
    run_tests("cases_images_full.py", runner=1)
