"""The adapter to vLLM's first model runner, synchronous scheduling only.

The runner calls the drafter at two points: `_sample`, where the rule's tokens replace the sampler's, and
`propose_draft_token_ids`, where the next round is drafted. Requests without a slot keep what vLLM gives them.
The logits here are before penalties, biases and other processors, and log-probabilities are those of the
sampler's tokens, so the API refuses AsymSpec requests that ask for them on this runner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .compat_worker import as_if_one_vocabulary, draft_model_proposer
from .drafting import Drafting
from .rounds import Rounds
from .slots import TAIL, on_device
from .vision import as_if_text_only

__all__ = ["runner_v1"]


def runner_v1(base: Any) -> Any:
    """The subclass of one of vLLM's first-generation runners that drafts from both views."""
    return type(f"AsymSpec{base.__name__}", (_AsymSpecRunner, base), {})


def _proposer(drafting: Drafting) -> Any:
    """What the runner takes for its drafter; it loads and drafts through the plugin's own."""

    def load_model(self: Any, target_model: Any) -> None:
        drafting.load()
        self.model = None

    def dummy_run(self: Any, num_tokens: int, **_: Any) -> None:
        drafting.dummy_run(num_tokens)

    def nothing(self: Any, *_: Any, **__: Any) -> None:
        pass

    base = draft_model_proposer()
    methods = {
        "__init__": nothing,
        "load_model": load_model,
        "dummy_run": dummy_run,
        "initialize_attn_backend": nothing,
        "initialize_cudagraph_keys": nothing,
        "kv_cache_gid": -1,
        "draft_attn_groups": [],
        "supports_mm_inputs": False,
    }
    return type("AsymSpecProposer", (base,), methods)()


class _AsymSpecRunner:
    """Mixed into a runner of vLLM's."""

    def __init__(self, vllm_config: Any, device: torch.device) -> None:
        with as_if_one_vocabulary(vllm_config), as_if_text_only(vllm_config):
            super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self._drafting = Drafting(vllm_config, device)
        self.drafter = _proposer(self._drafting)

    @property
    def _rounds(self) -> Rounds:
        return self._drafting.rounds

    def get_kv_cache_spec(self) -> Any:
        return self._drafting.without_own_layers(super().get_kv_cache_spec())  # type: ignore[misc]

    def initialize_kv_cache(self, kv_cache_config: Any, is_profiling: bool = False, **further: Any) -> None:
        super().initialize_kv_cache(kv_cache_config, is_profiling, **further)  # type: ignore[misc]
        if not is_profiling:
            self._drafting.allocate(kv_cache_config)

    @torch.inference_mode()
    def execute_model(self, scheduler_output: Any, *further: Any, **named: Any) -> Any:
        self._drafting.begin_step(scheduler_output)
        return super().execute_model(scheduler_output, *further, **named)  # type: ignore[misc]

    @torch.inference_mode()
    def sample_tokens(self, grammar_output: Any) -> Any:
        return self._drafting.end_step(super().sample_tokens(grammar_output))  # type: ignore[misc]

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        return True  # a full view may be longer than the verifier's limit; the scheduler knows the drafter's

    def _sample(self, logits: Tensor, spec_decode_metadata: Any) -> Any:
        rows = self._own_rows()
        num_scheduled = np.zeros(self.input_batch.num_reqs, dtype=np.int64)  # type: ignore[attr-defined]
        if spec_decode_metadata is not None:
            num_scheduled[:] = spec_decode_metadata.num_draft_tokens
        if rows:  # taken before vLLM's sampler, which may work in place
            verifier = self._verifier_logits(logits, rows, num_scheduled)
        output = super()._sample(logits, spec_decode_metadata)  # type: ignore[misc]
        if rows:
            names = self._names(rows)
            self._propose_first(rows)
            verdict = self._rounds.verify(names, verifier, num_scheduled[rows])
            sampled = output.sampled_token_ids
            own = verdict.tokens[:, : sampled.shape[1]].to(sampled.dtype)
            sampled[on_device(rows, torch.int64, sampled.device)] = own
        return output

    def propose_draft_token_ids(
        self, scheduler_output: Any, sampled_token_ids: Tensor, *further: Any, **named: Any
    ) -> Tensor:
        """Drafts for the own requests; those of other requests are zeros, which the scheduler drops."""
        num_requests = self.input_batch.num_reqs  # type: ignore[attr-defined]
        size = (num_requests, self._rounds.shape.num_places - 1)
        drafts = torch.zeros(size, dtype=torch.int64, device=sampled_token_ids.device)
        rows = self._own_rows()
        if rows:
            names = self._names(rows)
            index = on_device(rows, torch.int64, drafts.device)
            sampled = sampled_token_ids[index].long()  # [R, T], -1 from each row's end on
            num_sampled = (sampled >= 0).sum(dim=1)  # [R]
            before = self._lengths(rows)
            known = torch.cat([self._last_two(rows), sampled], dim=1)  # [R, 2 + T]
            last = num_sampled[:, None] + torch.arange(-sampled.shape[1], TAIL, device=drafts.device)
            self._rounds.propose(
                names,
                known.gather(1, last.clamp(min=0)),
                on_device(before, torch.int64, drafts.device) + num_sampled,
                before + sampled.shape[1],
                places=self._rounds.num_places(names),
            )
            drafts[index] = self._rounds.drafts(names)
        return drafts

    def _propose_first(self, rows: list[int]) -> None:
        """A round of one place where a prompt ends, or what a resumed request has to read again."""
        first = [row for row in rows if not self._rounds.has_round(self._names([row])[0])]
        lengths = self._lengths(first)
        last_two = self._last_two(first)
        num_tokens = on_device(lengths, torch.int64, last_two.device)
        self._rounds.propose(self._names(first), last_two, num_tokens, lengths, places=1)

    def _own_rows(self) -> list[int]:
        """Batch rows of AsymSpec requests that emit tokens in this step."""
        batch = self.input_batch  # type: ignore[attr-defined]
        unfinished = self.discard_request_mask.np  # type: ignore[attr-defined]  # prompts not read to their end
        return [
            row
            for row, req_id in enumerate(batch.req_ids[: batch.num_reqs])
            if self._rounds.knows(req_id) and not unfinished[row]
        ]

    def _names(self, rows: list[int]) -> list[str]:
        req_ids = self.input_batch.req_ids  # type: ignore[attr-defined]
        return [req_ids[row] for row in rows]

    def _lengths(self, rows: list[int]) -> Any:
        """Committed tokens of the rows before this step's, on the host."""
        lengths = self.input_batch.num_tokens_no_spec  # type: ignore[attr-defined]
        return np.asarray([lengths[row] for row in rows], dtype=np.int64)

    def _last_two(self, rows: list[int]) -> Tensor:
        """The last two of those tokens [R, 2]; zero where there is but one."""
        tokens = self.input_batch.token_ids_cpu  # type: ignore[attr-defined]
        pairs = np.zeros((len(rows), TAIL), dtype=np.int64)
        for i, (row, length) in enumerate(zip(rows, self._lengths(rows), strict=True)):
            last = tokens[row, max(0, length - TAIL) : length]
            pairs[i, TAIL - len(last) :] = last
        return on_device(pairs, torch.int64, self.device)  # type: ignore[attr-defined]

    def _verifier_logits(self, logits: Tensor, rows: list[int], num_scheduled: Any) -> Tensor:
        """A copy of the rows' logits [R, T, vocab]; what lies behind a row's own repeats its last."""
        counts = num_scheduled + 1
        starts = np.cumsum(counts) - counts
        place = np.minimum(np.arange(counts[rows].max())[None, :], num_scheduled[rows][:, None])
        index = on_device(starts[rows][:, None] + place, torch.int64, logits.device)
        return logits[index]
