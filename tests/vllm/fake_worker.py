"""A worker without models: it decodes at random, and checks every plan against what its pool holds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

from vllm_asymspec.budget import Limits
from vllm_asymspec.plan import COUNTS, StepCounts

from .pool_memory import PoolMemory


@dataclass
class Decoding:
    """A scheduled request: tokens of its compressed view, answer included. `drafts` None: no round yet."""

    tokens: list[int]
    num_computed: int
    drafts: list[int] | None = None


class FakeWorker:
    """Executes a scheduler's outputs in order."""

    def __init__(self, limits: Limits, num_slots: int, seed: int, vocab_size: int) -> None:
        self.limits = limits
        self.memory = PoolMemory(limits, num_slots)
        self.num_tokens_read: list[int] = []
        self._vocab_size = vocab_size
        self._random = random.Random(seed)
        self._running: dict[str, Decoding] = {}

    def execute(self, output: Any, requests: Mapping[str, Any]) -> ModelRunnerOutput:
        """The step's result. `requests`: the scheduler's, for what a real worker gets with new ones."""
        for req_id in sorted(output.finished_req_ids | (output.preempted_req_ids or set())):
            self._running.pop(req_id, None)
        plan = getattr(output, "asymspec", None)
        if plan is not None:
            names = {chunk.req_id for chunk in plan.chunks}
            tokens_of = {req_id: list(requests[req_id].all_token_ids) for req_id in names}
            self.num_tokens_read.append(self.memory.apply(plan, tokens_of))
        started = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        for req_id, num_computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if req_id in cached.resumed_req_ids:
                started[req_id] = num_computed
        for req_id, num_computed in started.items():
            self._running[req_id] = Decoding(list(requests[req_id].all_token_ids), num_computed)
        return self._result(output)

    def drafts(self, output: Any) -> DraftTokenIds:
        """Drafts for everybody, as the second model runner proposes them."""
        req_ids = list(output.num_scheduled_tokens)
        return DraftTokenIds(req_ids, [self._tokens(self.limits.num_draft_tokens) for _ in req_ids])

    def _result(self, output: Any) -> ModelRunnerOutput:
        req_ids = list(output.num_scheduled_tokens)
        sampled: list[list[int]] = []
        counted, counts = [], []
        for req_id, num_scheduled in output.num_scheduled_tokens.items():
            num_drafts = len(output.scheduled_spec_decode_tokens.get(req_id, ()))
            tokens = self._decode(req_id, num_scheduled, num_drafts)
            sampled.append(tokens)
            if tokens and req_id in self.memory.slots:
                counted.append(req_id)
                counts.append([num_drafts + 1, len(tokens) - 1, 1, 0, len(tokens), 0.25 * len(tokens)])
        indices = {req_id: index for index, req_id in enumerate(req_ids)}
        result = ModelRunnerOutput(req_ids=req_ids, req_id_to_index=indices, sampled_token_ids=sampled)
        result.asymspec = StepCounts(tuple(counted), np.array(counts).reshape(-1, len(COUNTS)))
        return result

    def _decode(self, req_id: str, num_scheduled: int, num_drafts: int) -> list[int]:
        state = self._running[req_id]
        num_behind = state.num_computed + num_scheduled - num_drafts
        if num_behind < len(state.tokens):
            state.num_computed += num_scheduled
            return []
        assert num_behind == len(state.tokens)
        is_ours = req_id in self.memory.slots
        is_first = state.drafts is None  # its drafts, if any, only pad the batch
        if is_first and is_ours:
            self.memory.round(req_id, state.tokens, self._tokens(1))
        if not is_first:
            new = self.memory.slots[req_id].new if is_ours else None
            assert num_drafts <= (new.options.get("num_draft_tokens", 2) if new else 0)
        num_accepted = 0 if is_first else self._random.randint(0, num_drafts)
        tokens = [*(state.drafts or [])[:num_accepted], *self._tokens(1)]
        state.tokens += tokens
        state.num_computed = len(state.tokens) - 1
        state.drafts = self._tokens(self.limits.num_draft_tokens + 1) if is_ours else []
        if is_ours:
            self.memory.round(req_id, state.tokens, state.drafts)
        return tokens

    def _tokens(self, num: int) -> list[int]:
        return [self._random.randrange(1, self._vocab_size) for _ in range(num)]
