"""Plans of a step, and how they are put together."""

from __future__ import annotations

import pickle

import numpy as np

from vllm_asymspec.plan import COUNTS, Blocks, Chunk, NewRequest, StepCounts, StepPlan, ViewPrompt
from vllm_asymspec.plan_draft import PlanDraft

NEW = NewRequest("a", True, 4, ViewPrompt(3, (1, 2)), ViewPrompt(0, (2,)), {"beta": 1.0}, False)


def test_plans_and_counts_survive_the_way_to_another_process() -> None:
    plan = StepPlan(("b",), (NEW,), (Blocks("a", "full", (1, 2), True),), (Chunk("a", "base", 0, b"1234"),))
    assert pickle.loads(pickle.dumps(plan)) == plan
    counts = pickle.loads(pickle.dumps(StepCounts(("a",), np.ones((1, len(COUNTS))))))
    assert counts.req_ids == ("a",)
    assert counts.counts.shape == (1, 6)


def test_blocks_of_a_view_come_in_one_entry() -> None:
    draft = PlanDraft()
    draft.append("a", "full", [1])
    draft.append("a", "full", [2, 3])
    draft.append("a", "base", [4])
    assert draft.plan().blocks == (Blocks("a", "full", (1, 2, 3), False), Blocks("a", "base", (4,), False))
    draft.replace("a", "full", [9])
    draft.append("a", "full", [8])
    assert draft.plan().blocks[0] == Blocks("a", "full", (9, 8), True)


def test_what_is_lost_before_the_plan_is_sent_leaves_no_trace() -> None:
    draft = PlanDraft()
    draft.add(NEW)
    draft.replace("a", "full", [1])
    draft.read("a", "full", 0, b"1234", {b"name": 1})
    draft.read("b", "full", 0, b"1234", {b"other": 2})
    assert draft.is_computing(b"name")
    draft.forget("a")
    assert draft.plan() == StepPlan(chunks=(Chunk("b", "full", 0, b"1234"),))
    assert not draft.is_computing(b"name")
    assert draft.filled() == [(2, b"other")]


def test_a_name_may_go_and_come_again_in_one_plan() -> None:
    draft = PlanDraft()
    draft.forget("a")
    draft.add(NEW)
    assert draft.plan() == StepPlan(gone=("a",), new=(NEW,))
    draft.forget("a")
    assert draft.plan() == StepPlan(gone=("a",))
