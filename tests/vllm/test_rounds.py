"""Draft rounds and verdicts against the naive decoder, under random schedules, with a paper drafter."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the worker's side needs torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from vllm_asymspec.plan import Blocks  # noqa: E402
from vllm_asymspec.warm_up import warm_up  # noqa: E402

from .machine import BLOCK_SIZE, K, Machine, Request, options, prompts, verifiers  # noqa: E402
from .paper_drafter import VOCAB  # noqa: E402


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_token_is_the_naive_one_whatever_happens_around_it(seed: int) -> None:
    rng = random.Random(seed)
    machine = Machine(rng)
    waiting = [Request(f"r{i % 4}", *prompts(rng), options(rng), verifiers(rng)) for i in range(6)]
    for _ in range(25):
        if waiting and len(machine.running) < 3 and waiting[0].name not in machine.running:
            machine.start(waiting.pop(0))
        names = [name for name in machine.running if rng.random() < 0.8]
        if names:
            rng.shuffle(names)
            machine.step(names, [rng.randint(0, K) for _ in names])
        for name in list(machine.running):
            chance = rng.random()
            if len(machine.running[name].answer) > 20 or chance < 0.03:
                machine.stop(name)
            elif chance < 0.12:  # preempted: it comes back with what it has
                waiting.insert(0, machine.stop(name))
    for name in list(machine.running):
        machine.stop(name)
    machine.apply()
    assert len(machine.rounds.slots) == 0
    assert not machine.rounds.slots.last_rounds


@pytest.mark.parametrize("bonus", ["rule", "none"])
def test_the_text_depends_on_nothing_but_the_views(bonus: str) -> None:
    """Any K, any number of drafts read, alone or among others: the same text."""
    rng = random.Random(5)
    full, base = [rng.randrange(VOCAB) for _ in range(20)], [rng.randrange(VOCAB) for _ in range(8)]
    texts = set()
    for num_drafts in range(1, K + 1):
        for others in (0, 2):
            machine = Machine(random.Random(num_drafts))
            chosen = {"num_draft_tokens": num_drafts, "bonus": bonus}
            machine.start(Request("it", full, base, chosen))
            for i in range(others):
                machine.start(Request(f"o{i}", *prompts(rng), options(rng)))
            while len(machine.running["it"].answer) < 16:
                names = list(machine.running)
                machine.step(names, [rng.randint(0, K) for _ in names])
                for name in names:
                    if name != "it" and len(machine.running[name].answer) > 16:
                        machine.stop(name)
            assert machine.running["it"].num_excused == 0
            texts.add(tuple(machine.running["it"].answer[:16]))
    assert len(texts) == 1


def test_a_round_reads_full_and_base_rows_together() -> None:
    machine = Machine(random.Random(0))
    machine.start(Request("a", [1, 2, 3, 4], [3, 4], {"num_draft_tokens": 2}))
    machine.start(Request("b", [5, 6, 7], [7, 7, 7, 7], {"num_draft_tokens": 2}))
    machine.step(["a", "b"], [0, 0])
    before = machine.drafter.num_forwards
    machine.step(["b", "a"], [2, 2])
    assert machine.drafter.num_forwards - before == 3  # K + 1 places, one forward each


def test_a_draft_on_the_verifiers_mask_is_refused_and_never_emitted() -> None:
    machine = Machine(random.Random(0))
    machine.start(Request("a", [1, 2, 3, 4], [3, 4], {"gamma": 0.0}))
    machine.apply(blocks=machine.extensions(machine.running["a"], 10))
    machine.propose([machine.running["a"]], places=1)
    draft = int(machine.rounds.drafts(["a"])[0, 0])
    logits = torch.zeros(1, 1, VOCAB)
    logits[..., draft] = -torch.inf
    verdict = machine.rounds.verify(["a"], logits, np.array([0]))
    assert verdict.tokens[0, 0] not in (-1, draft)


@pytest.mark.parametrize("replace", [False, True])
def test_drafts_beyond_a_table_go_to_nobodys_block(replace: bool) -> None:
    """Not to the blocks that the slot's last request, or the table before, had there."""
    machine = Machine(random.Random(0), num_slots=1)
    machine.start(Request("a", list(range(18)), list(range(1, 18)), {}))
    machine.step(["a"], [0])
    if replace:
        long = machine.running["a"].tables["base"]
        machine.apply(blocks=(Blocks("a", "base", tuple(long[:5]), replace=True),))
        kept = long[:5]
        names, views = "a", [*machine.running["a"].base, *machine.running["a"].answer]
    else:
        machine.stop("a")
        machine.running["b"] = Request("b", [1, 2, 3], [2, 3], {})
        machine.apply(new=(machine.running["b"].announced(),))
        kept, names, views = [], "b", [2, 3]  # it was given no blocks yet
    full = machine.running[names].tables.get("full", [])
    before = machine.drafter.pool.clone().reshape(-1, BLOCK_SIZE)
    length = torch.tensor([len(views)])
    machine.rounds.propose([names], torch.tensor([views[-2:]]), length, length.numpy(), places=K + 1)
    after = machine.drafter.pool.reshape(-1, BLOCK_SIZE)
    changed = set((before != after).any(dim=1).nonzero()[:, 0].tolist())
    assert changed <= {0, *kept, *full}
    assert 0 in changed


def test_more_requests_than_slots_are_an_error() -> None:
    machine = Machine(random.Random(0), num_slots=1)
    machine.start(Request("a", [1, 2, 3], [2, 3], {}))
    with pytest.raises(RuntimeError, match="slots"):
        machine.start(Request("b", [1, 2, 3], [2, 3], {}))


def test_a_step_judged_in_parts_is_counted_whole_and_once() -> None:
    machine = Machine(random.Random(0))
    for name in ("a", "b"):
        machine.start(Request(name, [1, 2, 3], [2, 3], {}))
        machine.apply(blocks=machine.extensions(machine.running[name], 10))
        machine.propose([machine.running[name]], places=1)
        machine.rounds.verify([name], torch.zeros(1, 1, VOCAB), np.array([0]))
    taken = machine.rounds.take_counts()
    assert taken is not None
    counts = taken.read()
    assert counts.req_ids == ("a", "b")
    assert counts.counts[:, 0].tolist() == [1.0, 1.0]
    assert machine.rounds.take_counts() is None


def test_a_warm_up_does_a_step_in_nobodys_block_and_leaves_nothing() -> None:
    machine = Machine(random.Random(0))
    warm_up(machine.rounds)
    assert machine.drafter.num_forwards == 1 + 2 * (K + 1)
    assert len(machine.rounds.slots) == 0
    assert machine.rounds.take_counts() is None
    assert (machine.drafter.pool[BLOCK_SIZE:] == -1).all()
    machine.start(Request("a", [1, 2, 3], [2, 3], {}))
    machine.step(["a"], [0])
