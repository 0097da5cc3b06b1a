"""A drafter of another family on vLLM's first model runner, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .engines import TinyEngine, first_runner, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.family_exactness")

from .exactness import Engines  # noqa: E402
from .family_exactness import FamilyExactness, Sizes  # noqa: E402

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
