"""What the second model runner takes for its speculator; it loads and drafts through the plugin's drafter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .compat_worker import draft_model_speculator
from .drafting import Drafting

__all__ = ["Propose", "speculator_v2"]

Propose = Callable[[Any], Tensor]


def speculator_v2(vllm_config: Any, device: torch.device, drafting: Drafting, propose: Propose) -> Any:
    """The speculator. `propose` drafts for a batch: [requests, K].

    It has no attention groups and captures no graphs: the drafter's forwards are its own, over the pool.
    """
    kind = type("AsymSpecSpeculator", (_Speculator, draft_model_speculator()), {})
    speculator = kind(vllm_config, device)
    speculator.drafting, speculator.propose_for = drafting, propose
    return speculator


class _Speculator:
    """Mixed into the class that the runner expects."""

    num_query_per_req = 1
    num_extra_query_per_req = 0  # the scheduler needs to leave no room for tokens read only by the drafter
    drafting: Drafting
    propose_for: Propose

    def __init__(self, vllm_config: Any, device: torch.device) -> None:
        super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self.attn_groups: list[Any] = []
        self.draft_logits = None  # drafts are greedy

    def load_model(self, target_model: Any) -> None:
        super().load_model(target_model)  # type: ignore[misc]
        self.supports_mm_inputs = False

    def load_draft_model(self, target_model: Any, target_attn_layer_names: set[str]) -> Any:
        """The drafter's weights; everything vLLM does with them is for shutting down."""
        self.drafting.load()
        return self.drafting.drafter.model

    def set_attn(self, *_: Any, **__: Any) -> None:
        """Nothing: the drafter's cache is not one of the engine's."""

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None:
        """Nothing, as for vLLM's own draft models."""

    def capture(self) -> None:
        """Nothing, as for vLLM's own draft models."""

    def observe_verification(self, *_: Any, **__: Any) -> None:
        """Nothing is learnt from verdicts."""

    def propose(
        self,
        input_batch: Any,
        *_: Any,
        dummy_run: bool = False,
        is_profile: bool = False,
        **__: Any,
    ) -> Tensor:
        """Drafts [requests, K]. A dummy run does a step's largest work, or that of so many tokens."""
        if not dummy_run:
            return self.propose_for(input_batch)
        num_tokens = self.drafting.drafter.max_tokens if is_profile else input_batch.num_tokens
        self.drafting.dummy_run(num_tokens)
        return self.draft_tokens[: input_batch.num_reqs]  # type: ignore[attr-defined,no-any-return]
