"""A drafter of another family: what scheduler and worker keep of an answer in its tokens, round by round."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES
from vllm_asymspec.family import Family

from .family_machine import Asked, FamilyMachine, paper_family

PAIRS = [("words", "digits", False), ("words", "digits", True), ("digits", "pieces", True)]
GATES = ("cda", "fixed", "position", "fused_greedy", "slack", "strict")


@pytest.fixture(params=PAIRS, ids=lambda pair: "-".join(map(str, pair)))
def family(request: pytest.FixtureRequest) -> Family:
    verifier, drafter, is_thin = request.param
    return paper_family(verifier, drafter, is_thin=is_thin)


def ids(rng: random.Random, size: int, num: int) -> list[int]:
    return [rng.randrange(size) for _ in range(num)]


def asked(rng: random.Random, family: Family, past: list[Asked]) -> Asked:
    """Views of any lengths, alike or not, that go on from an earlier answer or don't."""
    full = ids(rng, family.vocab_size, rng.choice((1, 2, 3, 9, 20)))
    base = full if rng.random() < 0.15 else ids(rng, family.vocab_size, rng.choice((1, 2, 5, 12)))
    if past and rng.random() < 0.4:
        before = rng.choice(past)
        written = family.begin()
        written.push(before.answer)
        full, base = ([*view, *written.tokens] for view in (before.full, before.base))
    options: dict[str, Any] = {
        "num_draft_tokens": rng.randint(1, 3),
        "bonus": rng.choice(("rule", "rule", "none", "verifier")),
        "gate": rng.choice(GATES),
        "delta": rng.choice(("context", "none")),
        "beta": rng.choice((0.0, 0.5, 1.0)),
        "gamma": rng.choice((0.2, 0.5)),
        "slack": 0.4,
        "identical_views": rng.choice(("strict", "gate")),
    }
    return Asked(full, list(base), ids(rng, family.num_ids, rng.randint(1, 8)), options)


@pytest.mark.parametrize("seed", range(2))
def test_every_token_is_the_naive_rules_however_requests_come_and_go(family: Family, seed: int) -> None:
    rng = random.Random(seed)
    machine = FamilyMachine(family, rng, num_blocks=600)
    past: list[Asked] = []
    running: list[str] = []
    cold: list[str] = []
    num_tokens = num_respelled = num_excused = num_resumed = 0
    for number in range(150):
        if number < 130 and rng.random() < 0.4:
            machine.add(f"n{number}", asked(rng, family, past))
            cold.append(f"n{number}")
        for name in list(cold):
            if machine.start(name):
                num_resumed += bool(machine.asked[name].answer)
                cold.remove(name)
                running.append(name)
        machine.step([name for name in running if rng.random() < 0.8])
        if running and rng.random() < 0.15:  # preempted
            name = running.pop(rng.randrange(len(running)))
            machine.views.release(name)
            cold.append(name)
        for name in [name for name in running if len(machine.asked[name].answer) > rng.randint(5, 40)]:
            running.remove(name)
            respelled = machine.views.tally(name).cross_family
            over = machine.stop(name)
            assert respelled is not None
            num_respelled += respelled["respelled"]
            num_tokens += len(over.answer)
            num_excused += over.num_excused
            past.append(over)
    assert num_tokens > 150
    assert num_resumed > 0
    assert num_excused <= max(1, num_tokens // 300)
    if family.num_mapped < 300:
        assert num_respelled > 20


def test_a_round_reads_a_bounded_number_of_tokens(family: Family) -> None:
    rng = random.Random(5)
    machine = FamilyMachine(family, rng, num_blocks=900, num_slots=1)
    machine.add("a", Asked([1, 2, 3], [4, 5], [6], {"num_draft_tokens": 3, "beta": 0.2}))
    assert machine.start("a")
    for _ in range(150):
        machine.step(["a"])
    longest = max(len(spelling or b"") for spelling in family.transcriber.verifier.spellings)
    assert 0 < machine.max_unread <= 2 * (MAX_TAIL_BYTES + longest + 3)


def test_blocks_with_a_name_are_never_written_again(family: Family) -> None:
    """A resumed request's answer may still be spelled otherwise at its end."""
    rng = random.Random(9)
    machine = FamilyMachine(family, rng, num_blocks=900, num_slots=2)
    machine.add("a", Asked([1, 2, 3], [4, 5], [6], {"num_draft_tokens": 2, "beta": 0.2}))
    pool, block_size = machine.views.pool, machine.views.limits.pool.block_size
    named: dict[int, tuple[bytes, list[int]]] = {}
    for _ in range(25):
        assert machine.start("a")
        for _ in range(4):
            machine.step(["a"])
            held = machine.drafter.pool.view(-1, block_size)
            now = {block: (name, held[block].tolist()) for name, block in pool._block_of.items()}
            for block in now.keys() & named.keys():
                if now[block][0] == named[block][0]:
                    assert now[block] == named[block]
            named = now
        machine.views.release("a")
    assert len(named) > 10
