"""A real vLLM scheduler with the fake worker, driven step by step as vLLM's engine core drives it."""

from __future__ import annotations

import itertools
import random
from collections import deque
from pathlib import Path
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from asymspec_agents.protocol import AsymSpecOptions
from vllm_asymspec.compat import limits
from vllm_asymspec.config import PluginConfig
from vllm_asymspec.scheduler_choice import AnyAsymSpecScheduler
from vllm_asymspec.wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids

from .fake_worker import FakeWorker
from .pool_memory import Known
from .vllm_configs import BLOCK, BLOCK_BYTES, VOCAB, kv_cache_config, vllm_config

MAX_STEPS = 3000


class Simulation:
    """An engine without models: `step` is one turn of its loop."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 0,
        num_pool_blocks: int = 60,
        num_kv_blocks: int = 60,
        num_drafts: int = 2,
        is_async: bool = False,
        scheduler_class: Any = AnyAsymSpecScheduler,
        asymspec: dict[str, Any] | None = None,
        **engine_args: Any,
    ) -> None:
        settings = {"pool_bytes": num_pool_blocks * BLOCK_BYTES, **(asymspec or {})}
        config = vllm_config(folder, asymspec=settings, num_drafts=num_drafts, **engine_args)
        config.scheduler_config.async_scheduling = is_async  # the CPU platform turns it off
        config.cache_config.num_gpu_blocks = num_kv_blocks
        self.random = random.Random(seed)
        self.is_async = is_async
        self.is_ours = scheduler_class is not Scheduler
        self.scheduler = scheduler_class(
            vllm_config=config,
            kv_cache_config=kv_cache_config(num_kv_blocks),
            structured_output_manager=StructuredOutputManager(config),
            block_size=BLOCK,
            log_stats=True,
        )
        num_slots = PluginConfig.of(config.additional_config).num_slots(config.scheduler_config.max_num_seqs)
        pool_limits = limits(config, kv_cache_config(num_kv_blocks))
        self.worker = FakeWorker(pool_limits, num_slots, seed, VOCAB)
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(BLOCK, sha256)
        self._pending: deque[tuple[Any, Any]] = deque()
        self._arrivals = itertools.count(1)
        self.finished: dict[str, Any] = {}
        self.outputs: dict[str, list[int]] = {}
        self.max_tokens: dict[str, int] = {}
        self.reports: dict[str, dict[str, Any]] = {}
        self.scheduled: list[dict[str, int]] = []
        self.num_preempted = 0

    def ids(self, num: int) -> list[int]:
        return [self.random.randrange(1, VOCAB) for _ in range(num)]

    def add(
        self,
        req_id: str,
        compressed: list[int],
        full: list[int] | None = None,
        *,
        max_tokens: int = 8,
        salt: str | None = None,
        priority: int = 0,
        extra_args: dict[str, Any] | None = None,
        **options: Any,
    ) -> Request:
        """A request comes; one with a full view is an AsymSpec request."""
        if full is not None:
            args = AsymSpecArgs(pack_ids(full), AsymSpecOptions.of(**options), salt)
            extra_args = {EXTRA_ARG: args.pack()}
            self.worker.memory.known[req_id] = Known(full, compressed, len(compressed), salt)
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, extra_args=extra_args)
        request = Request(
            request_id=req_id,
            prompt_token_ids=compressed,
            sampling_params=params,
            pooling_params=None,
            priority=priority,
            arrival_time=float(next(self._arrivals)),
            block_hasher=self._hasher,
        )
        self.scheduler.add_request(request)
        self.outputs[req_id] = []
        self.max_tokens[req_id] = max_tokens
        self.finished.pop(req_id, None)
        self.reports.pop(req_id, None)
        return request

    def is_free(self, req_id: str) -> bool:
        """Whether a request may have that name: vLLM's front end never gives one twice at a time."""
        in_flight = any(req_id in output.num_scheduled_tokens for output, _ in self._pending)
        return req_id not in self.scheduler.requests and not in_flight

    def abort(self, req_id: str) -> None:
        self.scheduler.finish_requests(req_id, RequestStatus.FINISHED_ABORTED)

    def step(self) -> Any:
        """Schedules, executes, and takes in what is due; None when there was nothing to do."""
        output = None
        if self.scheduler.has_requests():
            output = self.scheduler.schedule()
            self.num_preempted += len(output.preempted_req_ids or ())
            self.scheduled.append(dict(output.num_scheduled_tokens))
            self._pending.append((output, self.worker.execute(output, self.scheduler.requests)))
            if self.is_async and len(self._pending) < 2 and output.total_num_scheduled_tokens:
                return output
        if self._pending:
            self._take_in(*self._pending.popleft())
        return output

    def _take_in(self, output: Any, result: Any) -> None:
        for of_client in self.scheduler.update_from_output(output, result).values():
            for core_output in of_client.outputs:
                self.outputs[core_output.request_id] += core_output.new_token_ids
                params = core_output.kv_transfer_params
                if params is not None:
                    self.reports[core_output.request_id] = params[EXTRA_ARG]
                if core_output.finish_reason is not None:
                    assert core_output.request_id not in self.finished
                    self.finished[core_output.request_id] = core_output
        # vLLM's own scheduler gets no drafts: plain requests are to be scheduled as without speculation.
        if self.is_ours and not self.is_async and output.total_num_scheduled_tokens:
            self.scheduler.update_draft_token_ids(self.worker.drafts(output))

    def run(self) -> None:
        """Steps until nothing is left to do."""
        for _ in range(MAX_STEPS):
            if not self.scheduler.has_requests() and not self._pending:
                return
            self.step()
            self.check()
        raise AssertionError("the scheduler makes no progress")

    def check(self) -> None:
        """What must be true after every step."""
        views = self.scheduler._views
        pool = views.pool
        tables = [view.blocks for entry in views._entries.values() for view in entry.views]
        users: dict[int, int] = {}
        for table in tables:
            for block in table:
                users[block] = users.get(block, 0) + 1
        assert all(pool.num_users(block) == count for block, count in users.items())
        assert pool.num_used == len(users)
        assert pool.num_used + pool.num_free == views.limits.pool.num_usable_blocks
        running = {request.request_id for request in self.scheduler.running}
        assert all(views.has_slot(req_id) for req_id in running if req_id in views)
        waiting = {request.request_id for request in self.scheduler.waiting}
        warming = {request.request_id for request in self.scheduler._warming.requests()}
        assert not warming & (waiting | running)
        assert (
            waiting | warming | running | self.scheduler._refused.keys()
        ) == self.scheduler.requests.keys()

    def check_empty(self) -> None:
        """What must be true when no request is left."""
        views = self.scheduler._views
        assert not len(views)
        assert not views.holders()
        assert not self.worker.memory.slots
        assert not self.scheduler.requests
        assert not self.scheduler._refused
        assert not self.scheduler._warming._ages
        assert not self.scheduler.deferred_waiting
        assert views.pool.num_used == 0
        assert self.scheduler.get_request_counts() == (0, 0)
