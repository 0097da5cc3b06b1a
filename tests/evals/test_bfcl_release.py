"""The cross-check on the whole release, where it is at hand: all ground truths, thousands of near answers."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evals.scorers.bfcl_calls import check_calls
from evals.scorers.bfcl_memory import mentions
from evals.scorers.calls import WrittenCall
from evals.suites.bfcl import BfclMultiple, BfclParallel, BfclSimple
from evals.suites.bfcl_memory import BfclMemoryContext
from evals.suites.bfcl_tools import as_tools
from tests.evals.bfcl_mutations import mutated, rendered
from tests.evals.bfcl_official import official_mentions, official_tools, official_verdict
from tests.evals.references import references_folder

NUM_MUTATIONS = 5


def _release() -> Path:
    """The joined files of ASYMSPEC_DATA, or the official files among the references."""
    folder = os.environ.get("ASYMSPEC_DATA")
    return Path(folder) / "bfcl" if folder else references_folder()


def _calls(answer: list[dict[str, Any]]) -> list[WrittenCall]:
    return [WrittenCall(*item) for call in answer for item in call.items()]


@pytest.mark.parametrize("suite", [BfclSimple(), BfclMultiple(), BfclParallel()], ids=lambda one: one.name)
def test_every_verdict_is_the_official_checkers(suite: BfclSimple) -> None:
    num_right = 0
    samples = suite.load(_release())
    for sample in samples:
        functions, rng = sample.details["functions"], Random(sample.id)
        for trial in range(1 + NUM_MUTATIONS):
            answer = rendered(sample.gold, rng)
            if trial:
                answer = mutated(answer, rng)
            ours = check_calls(functions, _calls(answer), sample.gold).is_right
            theirs = official_verdict(suite.category, functions, answer, sample.gold)
            assert ours is theirs, (sample.id, answer)
            num_right += ours
    assert num_right >= 0.98 * len(samples)  # few ground truths leave out what the functions require


@pytest.mark.parametrize("suite", [BfclSimple(), BfclMultiple(), BfclParallel()], ids=lambda one: one.name)
def test_every_tool_is_the_official_handlers(suite: BfclSimple) -> None:
    for sample in suite.load(_release()):
        functions = sample.details["functions"]
        assert as_tools(functions) == official_tools(functions), sample.id
        assert [tool.wire() for tool in sample.tools] == as_tools(functions)


def test_every_memory_verdict_is_the_official_checkers() -> None:
    samples = BfclMemoryContext().load(_release())
    texts = [text for sample in samples for message in sample.messages[-1:] for text in message.texts()]
    for number, sample in enumerate(samples):
        own = [f"It is {one}." for one in sample.gold] + [one[:-1] for one in sample.gold]
        for answer in (*own, *samples[number - 1].gold, *texts[number : number + 3]):
            assert mentions(answer, sample.gold) is official_mentions(answer, sample.gold), answer
        assert mentions(sample.gold[0], sample.gold), sample.gold
