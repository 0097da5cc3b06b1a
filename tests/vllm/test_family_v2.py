"""A drafter of another family on vLLM's second model runner, which needs Triton's interpreter here."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from .engines import needs_vllm
from .interpreter import run_tests

needs_vllm()
if find_spec("triton") is None:
    pytest.skip("Triton is not installed; vLLM's second model runner needs it", allow_module_level=True)

pytestmark = pytest.mark.full


@pytest.mark.parametrize("scheduling", ["async", pytest.param("in-turn", marks=pytest.mark.slow)])
def test_every_token_is_the_rules(scheduling: str) -> None:
    run_tests("cases_family_v2.py", "-k", f"{scheduling} and not words-pieces and not odd")
