"""The plugin on vLLM's second model runner where it takes long: for the processes of test_exact_v2.py."""

from __future__ import annotations

import functools

import pytest

pytest.register_assert_rewrite("tests.vllm.exactness_full")

from .engines import TinyEngine  # noqa: E402
from .exactness import Engines  # noqa: E402
from .exactness_full import LongExactness  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own


@pytest.fixture
def engines() -> Engines:
    """vLLM with its engine in this process; it schedules ahead of results."""
    return functools.partial(TinyEngine, async_scheduling=True)


class TestSecondRunner(LongExactness):
    """All of them."""
