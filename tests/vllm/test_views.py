"""Both views of every request: what is read, what is shared, what the worker is told."""

from __future__ import annotations

import random

import pytest

from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport
from vllm_asymspec.budget import DrafterShape, Limits, PoolShape
from vllm_asymspec.reading import reading_of
from vllm_asymspec.tally import Tally
from vllm_asymspec.views import Views
from vllm_asymspec.warming import WarmingQueue, shares
from vllm_asymspec.wire_args import AsymSpecArgs, pack_ids

from .pool_memory import Known, PoolMemory

BLOCK = 4
DRAFTER = DrafterShape(1, 1, 8, 2, max_positions=4000, vocab_size=9)
NUM_DRAFTS = 2


def limits(num_blocks: int) -> Limits:
    return Limits(PoolShape(num_blocks, BLOCK, 1), DRAFTER, 4000, NUM_DRAFTS, num_steps_in_flight=1)


class Both:
    """Views and the pool they speak of."""

    def __init__(self, num_blocks: int = 100, num_slots: int = 4) -> None:
        self.views = Views(limits(num_blocks), num_slots)
        self.memory = PoolMemory(self.views.limits, num_slots)
        self.tokens: dict[str, list[int]] = {}

    def add(
        self,
        req_id: str,
        full: list[int],
        compressed: list[int],
        salt: str | None = None,
        base: list[int] | None = None,
        **options: object,
    ) -> None:
        args = AsymSpecArgs(pack_ids(full), AsymSpecOptions.of(**options), base_ids=pack_ids(base or ()))
        self.views.add(req_id, args, pack_ids(compressed), salt)
        self.memory.known[req_id] = Known(full, base or compressed, len(compressed), salt)
        self.tokens[req_id] = list(compressed)

    def begin(self, req_id: str) -> bool:
        return self.views.begin(req_id, self.tokens[req_id][self.memory.known[req_id].num_compressed :])

    def send(self) -> int:
        return self.memory.apply(self.views.take_plan(), self.tokens)

    def read_all(self, req_id: str, step: int = 1000) -> int:
        """Reads the whole request; returns how many tokens the drafter read for it."""
        num_read = 0
        while self.views.num_to_read(req_id):
            self.views.read(req_id, step)
            num_read += self.send()
        return num_read


@pytest.mark.parametrize("num", [1, 2, 3, 11, 40])
def test_a_base_view_of_the_drafters_own(num: int) -> None:
    """It is longer or shorter than what the verifier reads, and shared with others alike."""
    both = Both()
    base = list(range(100, 100 + num))
    both.add("a", list(range(30)), [1, 2, 3, 4, 5], base=base)
    assert both.begin("a")
    assert both.read_all("a") == 28 + max(num - 2, 0)
    both.memory.round("a", both.tokens["a"], [7, 8])
    both.tokens["a"] += [7, 9]
    assert both.views.cover("a", len(both.tokens["a"]))
    both.send()
    both.memory.round("a", both.tokens["a"], [1, 2])
    both.add("b", list(range(30)), [6] * 9, base=[*base, 1, 2])
    assert both.begin("b")
    assert both.views.tally("b").cached.base == max(num - 2, 0) // BLOCK * BLOCK
    both.read_all("b")
    both.memory.round("b", both.tokens["b"], [7])


def test_everything_but_the_last_two_tokens_is_read() -> None:
    both = Both()
    both.add("a", list(range(9)), [8, 7, 6])
    assert both.begin("a")
    assert both.read_all("a", 3) == 7 + 1
    both.memory.round("a", both.tokens["a"], [1, 2, 3])


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_views_of_one_or_two_tokens_need_no_reading(num_tokens: int) -> None:
    both = Both()
    both.add("a", [1] * num_tokens, [2])
    assert both.begin("a")
    assert both.views.num_to_read("a") == 0
    assert both.send() == 0
    both.memory.round("a", both.tokens["a"], [1, 2, 3])


@pytest.mark.parametrize(
    ("full", "base", "options", "expected"),
    [
        ([1, 2, 3], [], {}, (True, False, 1, 0)),
        ([1, 2], [], {}, (False, True, 0, 0)),
        ([1, 2], [], {"identical_views": "gate"}, (False, False, 0, 0)),
        ([1, 2, 3], [], {"mode": "product"}, (False, False, 1, 0)),
        ([1], [], {"mode": "strict"}, (False, False, -1, 0)),
        ([1, 2], [9, 1, 2, 3], {}, (True, False, 0, 2)),
        ([9], [9], {}, (False, True, -1, -1)),
    ],
)
def test_what_the_drafter_reads(
    full: list[int], base: list[int], options: dict[str, str], expected: tuple[bool, bool, int, int]
) -> None:
    args = AsymSpecArgs(pack_ids(full), AsymSpecOptions.of(**options), base_ids=pack_ids(base))
    reading = reading_of(args, pack_ids([1, 2]))
    assert (reading.has_base, reading.strict, reading.full_delta, reading.base_delta) == expected


def test_two_requests_of_one_text_compute_it_once() -> None:
    both = Both()
    text = [1, 2, 3, 4] * 10
    both.add("a", [*text, 5, 6, 7], [1])
    both.add("b", [*text, 7, 6, 5], [1])
    assert both.begin("a")
    assert both.begin("b")
    num_read = []
    while both.views.num_to_read("a") or both.views.num_to_read("b"):
        both.views.read("a", 8)
        both.views.read("b", 8)
        num_read.append(both.send())
    assert sum(num_read) == (len(text) + 1) + 1
    assert both.views.tally("a").cached.drafter == 0
    assert both.views.tally("b").cached.drafter == len(text)


def test_a_preempted_request_finds_its_own_blocks_without_calling_them_cached() -> None:
    both = Both()
    both.add("a", list(range(20)), [1])
    both.begin("a")
    both.read_all("a")
    both.tokens["a"] += [5, 6, 7]
    both.views.release("a")
    assert both.send() == 0
    assert not both.memory.slots
    assert both.begin("a")
    assert both.read_all("a") == 20 + 3 - 2 - 16 + (1 + 3 - 2)
    both.memory.round("a", both.tokens["a"], [1, 2, 3])
    assert both.views.tally("a").cached.drafter == 0


def test_growing_tables_reach_the_worker_before_they_are_needed() -> None:
    both = Both()
    both.add("a", list(range(20)), [1, 2, 3])
    both.begin("a")
    both.read_all("a")
    for _ in range(40):
        assert both.views.cover("a", len(both.tokens["a"]))
        both.send()
        both.memory.round("a", both.tokens["a"], [1, 2, 3])
        both.tokens["a"] += [1, 2, 3]


def test_a_request_begins_with_all_its_blocks_or_none() -> None:
    both = Both(num_blocks=12, num_slots=2)
    both.add("a", [1] * 20, [2] * 3)
    both.add("b", [1] * 20, [2] * 3)
    assert both.begin("a")
    num_free = both.views.pool.num_free
    assert not both.begin("b")
    assert both.views.pool.num_free == num_free
    assert both.views.holders() == ("a",)
    both.views.remove("a")
    assert both.begin("b")


@pytest.mark.parametrize("seed", range(60))
def test_random_lives(seed: int) -> None:
    rng = random.Random(seed)
    both = Both(num_blocks=rng.choice([30, 60]), num_slots=3)
    views, texts = both.views, [[rng.randrange(8) for _ in range(30)] for _ in range(2)]
    for step in range(60):
        names = list(both.tokens)
        act = rng.choice(
            ["add", "begin", "read", "read", "read", "round", "round", "release", "remove", "send"]
        )
        if act == "add" and len(names) < 6:
            req_id = rng.choice([str(step), "again"])
            if req_id not in names:
                full = rng.choice(texts)[: rng.randint(1, 30)] + [rng.randrange(8)] * rng.randint(0, 3)
                compressed = rng.choice(texts)[: rng.randint(1, 12)]
                both.add(req_id, full, compressed, rng.choice([None, "s"]))
        elif names and act != "add":
            req_id = rng.choice(names)
            if act == "begin" and not views.has_slot(req_id):
                both.begin(req_id)
            elif act == "read" and views.has_slot(req_id):
                both.send()
                for name in rng.sample(views.holders(), len(views.holders())):
                    views.read(name, rng.randint(0, 12))
            elif act == "round" and views.has_slot(req_id) and not views.num_to_read(req_id):
                if views.cover(req_id, len(both.tokens[req_id])):
                    both.send()
                    both.memory.round(req_id, both.tokens[req_id], [rng.randrange(8) for _ in range(3)])
                    both.tokens[req_id] += [rng.randrange(8) for _ in range(1)]
            elif act == "release":
                views.release(req_id)
            elif act == "remove":
                views.remove(req_id)
                del both.tokens[req_id]
            elif act == "send":
                both.send()
    for req_id in list(both.tokens):
        views.remove(req_id)
    views.take_plan()
    assert views.pool.num_used == 0
    assert not views.holders()


def test_the_report_adds_up_and_is_one() -> None:
    tally = Tally("asymspec", None, num_compressed=5, num_full=9, num_places=3)
    tally.cached.drafter = 4
    for counts in ([1, 0, 1, 0, 1, 0.5], [3, 2, 1, 0, 3, 0.25], [0, 0, 0, 0, 0, 0], [3, 1, 1, 0, 2, 0.25]):
        tally.add(counts)
    report = AsymSpecReport.model_validate(tally.report())
    assert tally.report().keys() == AsymSpecReport.model_fields.keys()
    assert (report.blocks, report.drafted, report.accepted, report.fused, report.bonus) == (3, 7, 3, 3, 0)
    assert report.accepted_per_position == (2, 1, 0)
    assert report.mean_divergence == pytest.approx(1 / 6)
    assert (report.verifier_prompt_tokens, report.drafter_prompt_tokens) == (5, 9)
    assert report.cached_tokens.drafter == 4
    assert Tally("strict", "identical_views", 1, 1, 2).report()["mean_divergence"] == 0


@pytest.mark.parametrize(
    ("wanted", "budget", "expected"),
    [
        ([], 100, []),
        ([500], 100, [100]),
        ([10, 500], 100, [10, 90]),
        ([5000, 5000], 1000, [813, 187]),
        ([5000, 10, 5000], 1000, [810, 10, 180]),
        ([5000, 5000], 40, [40, 0]),
        ([0, 7], 40, [0, 7]),
    ],
)
def test_shares_of_a_budget(wanted: list[int], budget: int, expected: list[int]) -> None:
    assert shares(wanted, budget) == expected


def test_the_queue_keeps_the_order_in_which_requests_came() -> None:
    class Request:
        def __init__(self, req_id: str, priority: int) -> None:
            self.request_id, self.priority = req_id, priority

    requests = [Request("b", 1), Request("c", 0), Request("a", 1)]
    for by_priority, expected in ((False, "bca"), (True, "cba")):
        queue = WarmingQueue(by_priority=by_priority)
        for request in requests:
            queue.register(request)
        for request in (*reversed(requests), requests[0]):
            queue.add(request)
        assert "".join(request.request_id for request in queue.requests()) == expected
        assert queue.remove(requests[1]) >= 0
        assert requests[1] not in queue
        assert len(queue) == 2
        queue.forget("a")
        assert [request.request_id for request in queue.requests()] == ["b"]
