"""The adapter to vLLM's second model runner, synchronous or asynchronous scheduling.

What was committed is on the device: asynchronous scheduling has no token on the host before the next step. So
lengths and last tokens are read from the runner's state there, and the host knows bounds only. Requests
without a slot keep what vLLM gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .drafting import Drafting
from .rounds import Rounds
from .sampling_v2 import Judging, adopt_samplers
from .slots import TAIL, on_device
from .speculator_v2 import speculator_v2

__all__ = ["runner_v2"]


def runner_v2(base: Any) -> Any:
    """The subclass of one of vLLM's second-generation runners that drafts from both views."""
    return type(f"AsymSpec{base.__name__}", (_AsymSpecRunner, base), {})


class _AsymSpecRunner:
    """Mixed into a runner of vLLM's."""

    def __init__(self, vllm_config: Any, device: torch.device) -> None:
        super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self._drafting = Drafting(vllm_config, device)
        self.speculator = speculator_v2(vllm_config, device, self._drafting, self._propose)

    @property
    def _rounds(self) -> Rounds:
        return self._drafting.rounds

    def load_model(self, *further: Any, **named: Any) -> None:
        super().load_model(*further, **named)  # type: ignore[misc]
        adopt_samplers(self)

    def get_kv_cache_spec(self) -> Any:
        return self._drafting.without_own_layers(super().get_kv_cache_spec())  # type: ignore[misc]

    def initialize_kv_cache(self, kv_cache_config: Any, is_profiling: bool = False, **further: Any) -> None:
        super().initialize_kv_cache(kv_cache_config, is_profiling=is_profiling, **further)  # type: ignore[misc]
        if not is_profiling:
            self._drafting.allocate(kv_cache_config)

    @torch.inference_mode()
    def execute_model(
        self, scheduler_output: Any, *further: Any, dummy_run: bool = False, **named: Any
    ) -> Any:
        if not dummy_run:
            self._drafting.begin_step(scheduler_output)
        return super().execute_model(scheduler_output, *further, dummy_run=dummy_run, **named)  # type: ignore[misc]

    @torch.inference_mode()
    def sample_tokens(self, grammar_output: Any) -> Any:
        return self._drafting.end_step(super().sample_tokens(grammar_output))  # type: ignore[misc]

    def sample(self, hidden_states: Tensor, input_batch: Any, grammar_output: Any) -> Any:
        """vLLM's sampling, in which our requests get the rule's tokens."""
        rows = self._own_rows(input_batch)
        first = [row for row in rows if not self._rounds.has_round(input_batch.req_ids[row])]
        self._draft(input_batch, first, num_new=0, places=1)
        sampler = self.sampler  # type: ignore[attr-defined]
        sampler.asymspec = self._judging(input_batch, rows, grammar_output)
        try:
            sampled = super().sample(hidden_states, input_batch, grammar_output)  # type: ignore[misc]
        finally:
            sampler.asymspec = None
        self._drafting.send_counts(self.output_copy_stream)  # type: ignore[attr-defined]
        return sampled

    def _propose(self, input_batch: Any) -> Tensor:
        """Drafts for the own requests; those of other requests are zeros, which the scheduler drops."""
        rows = self._own_rows(input_batch)
        size = (input_batch.num_reqs, self._rounds.shape.num_places - 1)
        drafts = torch.zeros(size, dtype=torch.int64, device=input_batch.idx_mapping.device)
        if rows:
            names = [input_batch.req_ids[row] for row in rows]
            self._draft(input_batch, rows, num_new=1, places=self._rounds.num_places(names))
            drafts[on_device(rows, torch.int64, drafts.device)] = self._rounds.drafts(names)
        return drafts

    def _draft(self, input_batch: Any, rows: list[int], *, num_new: int, places: int) -> None:
        """A round behind what is committed, of which `num_new` tokens or fewer were not given to read."""
        if not rows:
            return
        states = self.req_states  # type: ignore[attr-defined]
        index = input_batch.idx_mapping[on_device(rows, torch.int64, input_batch.idx_mapping.device)]
        length = states.total_len.gpu[index].long()
        num_last = max(TAIL, self._rounds.shape.num_places)
        tail = length[:, None] + torch.arange(-num_last, 0, device=length.device)
        self._rounds.propose(
            [input_batch.req_ids[row] for row in rows],
            states.all_token_ids.gpu[index[:, None], tail.clamp(min=0)].long(),
            length,
            _bounds(input_batch)[rows] + num_new,
            places=places,
        )

    def _own_rows(self, input_batch: Any) -> list[int]:
        """Batch rows of AsymSpec requests that emit tokens in this step: their prompt is read to its end."""
        return [
            row
            for row, (req_id, bound, prefill_len) in enumerate(
                zip(input_batch.req_ids, _bounds(input_batch), input_batch.prefill_len_np, strict=True)
            )
            if bound >= prefill_len and self._rounds.knows(req_id)
        ]

    def _judging(self, input_batch: Any, rows: list[int], grammar_output: Any) -> Judging:
        indices: list[int] = input_batch.idx_mapping_np.tolist()
        num_logits: list[int] = np.diff(input_batch.cu_num_logits_np).tolist()
        names = {indices[row]: input_batch.req_ids[row] for row in rows}
        num_drafts = {indices[row]: num_logits[row] - 1 for row in rows}
        allowed = _allowed_drafts(grammar_output)
        for index, name in names.items():
            num_drafts[index] = min(num_drafts[index], allowed.get(name, num_drafts[index]))
        return Judging(self._rounds, names, num_drafts, dict(zip(indices, num_logits, strict=True)))


def _bounds(input_batch: Any) -> NDArray[np.int64]:
    """No fewer tokens of each request than were committed before this step; exact while it reads its prompt.

    There, what comes behind the prompt is placeholders.
    """
    read: NDArray[np.int32] = input_batch.seq_lens_cpu_upper_bound.numpy()[: input_batch.num_reqs]
    prompts = np.where(input_batch.is_prefilling_np, input_batch.prefill_len_np, read)
    return np.asarray(np.minimum(read, prompts), dtype=np.int64)


def _allowed_drafts(grammar_output: Any) -> dict[str, int]:
    """How many of its drafts a request's grammar allows: behind those the masks say nothing."""
    if grammar_output is None or grammar_output.num_acceptable_drafts is None:
        return {}
    ids = grammar_output.structured_output_request_ids
    return dict(zip(ids, grammar_output.num_acceptable_drafts, strict=True))
