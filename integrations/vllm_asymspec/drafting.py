"""The worker's side of the plugin put together: drafter, pool and rounds, whichever runner drives them."""

from __future__ import annotations

from typing import Any

import torch

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.rule import verify_block

from .budget import verifier_bytes
from .compat import drafter_shape, family_of, limits
from .compat_worker import cached_tokenizer_from_config
from .config import PluginConfig
from .drafter import Drafter
from .foreign_rounds import ForeignRounds
from .plan import StepPlan
from .reporting import COUNTS_ATTRIBUTE, CountsOnTheWay, with_counts
from .rounds import Rounds
from .slots import Shape

__all__ = ["PLAN_ATTRIBUTE", "Drafting"]

PLAN_ATTRIBUTE = (
    COUNTS_ATTRIBUTE  # the plan comes on the scheduler's output as the counts leave on the runner's
)


class Drafting:
    """Made with the runner; `load` with the verifier's weights, `allocate` with its cache."""

    def __init__(self, vllm_config: Any, device: torch.device) -> None:
        self._plugin = PluginConfig.of(vllm_config.additional_config)
        self._vllm_config = vllm_config
        self._device = device
        self._max_positions = drafter_shape(vllm_config).max_positions
        self.num_slots = self._plugin.num_slots(vllm_config.scheduler_config.max_num_seqs)
        self.drafter = Drafter(
            vllm_config,
            device,
            max_tokens=self._plugin.idle_prefill_tokens,
            max_rows=max(2 * self.num_slots, vllm_config.scheduler_config.max_num_seqs),
            max_positions=self._max_positions,
            plugin=self._plugin,
        )
        self._rounds: Rounds | None = None
        self._counts: CountsOnTheWay | None = None

    @property
    def rounds(self) -> Rounds:
        """The draft rounds; there from `load` on."""
        if self._rounds is None:
            raise RuntimeError("the drafter is not loaded")
        return self._rounds

    def load(self) -> None:
        """Loads the drafter and makes the buffers, so that memory profiling counts both."""
        self.drafter.load()
        config = self._vllm_config
        family = family_of(config)
        drafter_size = self.drafter.config.model_config.get_vocab_size()
        sizes = [config.model_config.get_vocab_size()]
        if family is None:
            sizes.append(drafter_size)
        tokenizer = cached_tokenizer_from_config(config.model_config)
        if tokenizer is not None:
            sizes.append(tokenizer.max_token_id + 1)
        shape = Shape(
            num_requests=self.num_slots,
            num_places=config.speculative_config.num_speculative_tokens + 1,
            vocab_size=min(sizes),
            logits_size=drafter_size if family is None else family.num_ids,
            max_positions=self._max_positions,
            block_size=config.cache_config.block_size,
        )
        dtype, device = self.drafter.logits_dtype, self._device
        if family is None:
            self._rounds = Rounds(self.drafter, shape, dtype, device)
        else:
            self._rounds = ForeignRounds(self.drafter, shape, dtype, device, family)

    def without_own_layers(self, specs: dict[str, Any]) -> dict[str, Any]:
        """A runner's KV cache specification less the drafter's layers, whose cache is the pool."""
        own = set(self.drafter.layer_names)
        return {name: spec for name, spec in specs.items() if name not in own}

    def allocate(self, kv_cache_config: Any) -> None:
        """Makes the pool, once the verifier's cache is there."""
        self.drafter.free()
        self.drafter.allocate(limits(self._vllm_config, kv_cache_config).pool)

    def verifier_bytes(self, available_bytes: int) -> int:
        """What of the memory for keys and values is the verifier's."""
        kept = self._plugin.image_cache_bytes if self.drafter.sight is not None else 0
        return verifier_bytes(self._plugin, available_bytes, kept)

    def begin_step(self, scheduler_output: Any) -> None:
        """Does the step's plan. Steps that vLLM makes up to warm itself up bring none."""
        plan: StepPlan | None = getattr(scheduler_output, PLAN_ATTRIBUTE, None)
        if plan is not None:
            self.rounds.apply(plan)

    def send_counts(self, stream: Any = None) -> None:
        """Starts the copy of what a verification counted, on the stream where vLLM copies, if it has one."""
        counts = self.rounds.take_counts()
        if counts is not None:
            self._counts = CountsOnTheWay(counts, stream)

    def end_step(self, output: Any) -> Any:
        """The runner's output with the step's counts."""
        self.send_counts()
        counts, self._counts = self._counts, None
        return with_counts(output, counts)

    def dummy_run(self, num_tokens: int) -> None:
        """The largest work of a step without requests: for measuring memory and for compiling."""
        shape = self.rounds.shape
        logits = self.rounds.shared(self.drafter.dummy_run(num_tokens, 2 * shape.num_requests))
        block = logits[: shape.num_requests, None].expand(-1, shape.num_places, -1).contiguous()
        drafts = torch.zeros(block.shape[:2], dtype=torch.int64, device=block.device)
        verify_block(Rule(), drafts, block, block, block, vocab_size=shape.vocab_size)
