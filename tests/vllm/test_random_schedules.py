"""Random schedules on one engine with few blocks: every answer is right, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from .engines import BLOCK_BYTES, Ask, TinyEngine, needs_vllm

needs_vllm()
pytest.register_assert_rewrite("tests.vllm.schedules")

from .models import save_pair  # noqa: E402
from .schedules import Author, Book, Schedule  # noqa: E402

# vLLM's own warnings are ignored.
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]

NUM_SCHEDULES = 240
NUM_PARTS = 6
NUM_POOL_BLOCKS, NUM_KV_BLOCKS = 24, 14  # two long requests, or three


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        patch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
        patch.setenv("VLLM_DISABLE_REQUEST_ID_RANDOMIZATION", "1")  # the scheduler gets the names asked by
        patch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
        engine = TinyEngine(
            save_pair(tmp_path_factory.mktemp("pair")),
            {"pool_bytes": NUM_POOL_BLOCKS * BLOCK_BYTES, "prefill_tokens": 48, "max_requests": 6},
            num_gpu_blocks_override=NUM_KV_BLOCKS,
            max_model_len=256,
        )
        yield engine
        engine.close()


class Preemptions:
    """How often a request lost its place, to the verifier's cache or to the drafter's pool."""

    def __init__(self, scheduler: Any, patch: pytest.MonkeyPatch) -> None:
        self.num_by_pool = self.num_all = 0
        take, preempt = scheduler._take_blocks, scheduler._preempt_request

        def taken(request: Any) -> None:
            self.num_by_pool += request.status.name == "RUNNING"
            take(request)

        def preempted(request: Any, *args: Any, **kwargs: Any) -> Any:
            self.num_all += 1
            return preempt(request, *args, **kwargs)

        patch.setattr(scheduler, "_take_blocks", taken)
        patch.setattr(scheduler, "_preempt_request", preempted)


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_every_answer_is_the_rules_and_nothing_is_left(
    engine: TinyEngine, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    preemptions = Preemptions(engine.scheduler, monkeypatch)
    author, book = Author(part), Book()
    for number in range(NUM_SCHEDULES // NUM_PARTS):
        Schedule(engine, author, book, seed=1000 * part + number).run()
        engine.answer([Ask([1, 2, 3], max_tokens=1)])  # a step that brings the worker the last news
        _check_nothing_is_left(engine)
    book.seen.check_excuses()
    assert 0.1 < book.seen.num_accepted / book.seen.num_tokens < 0.9
    assert book.num_stopped > 0
    assert book.num_found > 0
    assert preemptions.num_by_pool > 0
    assert preemptions.num_all > preemptions.num_by_pool


def _check_nothing_is_left(engine: TinyEngine) -> None:
    assert engine.is_clean()
    scheduler, runner = engine.scheduler, engine.runner
    left = (
        scheduler.requests,
        scheduler.running,
        list(scheduler.waiting),
        scheduler.deferred_waiting,
        scheduler._refused,
        scheduler._views._entries,
        scheduler._views._holders,
        scheduler._warming._ages,
        scheduler._warming._queue,
        runner._drafting.rounds.slots.last_rounds,
    )
    assert not any(left), left
    assert len(runner.requests) == len(runner.input_batch.req_id_to_index) == 1  # the bringer itself
    pool = scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == NUM_KV_BLOCKS - 1  # one is vLLM's own
    ours = scheduler._views.pool
    assert ours.num_free == scheduler._views.limits.pool.num_usable_blocks
    assert not any(ours.num_users(block) for block in range(1, scheduler._views.limits.pool.num_blocks))
