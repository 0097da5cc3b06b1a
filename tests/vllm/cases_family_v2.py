"""A drafter of another family on vLLM's second model runner: tests that test_family_v2.py starts."""

from __future__ import annotations

import functools

import pytest

pytest.register_assert_rewrite("tests.vllm.exactness", "tests.vllm.family_exactness")

from .engines import TinyEngine  # noqa: E402
from .exactness import Engines  # noqa: E402
from .family_exactness import FamilyExactness, Sizes  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own


@pytest.fixture(scope="module", params=["async", "in-turn"])
def engines(request: pytest.FixtureRequest) -> Engines:
    """vLLM with engine and worker in this process; by default it schedules ahead of results, as on a GPU."""
    return functools.partial(TinyEngine, async_scheduling=request.param == "async")


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    """vLLM's second runner takes pairs with as many rows in both models only: the smaller is padded."""
    return {("words", "digits"): (640, 640), ("digits", "words"): (640, 640), ("words", "pieces"): (704, 704)}


class TestSecondRunner(FamilyExactness):
    """All of them."""
