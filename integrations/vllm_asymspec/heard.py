"""What vLLM's outputs say of one AsymSpec request.

The scheduler sends a request's counts with every output in `kv_transfer_params`, the one field that reaches
the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .wire_args import EXTRA_ARG

__all__ = ["Heard"]


@dataclass(slots=True)
class Heard:
    """What one request's outputs said so far; counts are those of the last output."""

    counts: Mapping[str, Any] = field(default_factory=dict)
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    is_finished: bool = False

    def take(self, output: Any) -> None:
        """Reads an output of the engine, and removes what is not vLLM's.

        Raises ConfigurationError for a request that the scheduler refused.
        """
        params = output.kv_transfer_params
        if isinstance(params, Mapping) and EXTRA_ARG in params:
            self.counts = params[EXTRA_ARG]
            output.kv_transfer_params = {k: v for k, v in params.items() if k != EXTRA_ARG} or None
            if "error" in self.counts:
                raise ConfigurationError(self.counts["error"])
        if output.prompt_token_ids is not None:
            self.num_prompt_tokens = len(output.prompt_token_ids)
        self.num_cached_tokens = max(self.num_cached_tokens, output.num_cached_tokens or 0)
        self.is_finished = self.is_finished or output.finished
