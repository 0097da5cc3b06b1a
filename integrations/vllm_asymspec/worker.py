"""The worker class to name in `worker_cls`: vLLM's own for the platform, with the plugin's model runner."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .compat import limits
from .compat_worker import as_if_one_vocabulary, current_platform, model_runner_class, worker_class
from .runner_v1 import runner_v1
from .startup import refuse_unsupported
from .vision import as_if_text_only
from .warm_up import warm_up

__all__ = ["AsymSpecWorker"]


class AsymSpecWorker(worker_class()):  # type: ignore[misc]  # vLLM is untyped here
    """vLLM's worker; refuses what the plugin can't serve before anything is loaded."""

    def __init__(self, vllm_config: Any, *further: Any, **named: Any) -> None:
        refuse_unsupported(vllm_config)
        super().__init__(vllm_config, *further, **named)

    def init_device(self) -> None:
        """vLLM's set-up; the CPU worker makes its runner within, so it is made again."""
        if not current_platform.is_cpu():
            super().init_device()
            return
        with as_if_one_vocabulary(self.vllm_config), as_if_text_only(self.vllm_config):
            super().init_device()
        self.model_runner = self._make_model_runner()

    def _make_model_runner(self) -> Any:
        is_v2 = self.use_v2_model_runner
        base = model_runner_class(is_v2=is_v2)
        if is_v2:
            from .runner_v2 import runner_v2

            return runner_v2(base)(self.vllm_config, self.device)
        return runner_v1(base)(self.vllm_config, self.device)

    def determine_available_memory(self) -> int:
        """Bytes for the verifier's keys and values: what vLLM finds less the drafter's pool.

        A size the user gave is the verifier's alone.
        """
        available: int = super().determine_available_memory()
        if self.cache_config.kv_cache_memory_bytes is not None:
            return available
        return int(self.model_runner._drafting.verifier_bytes(available))

    def initialize_from_config(self, kv_cache_config: Any, *further: Any, **named: Any) -> None:
        """vLLM's, with a note of what that leaves for a request."""
        self._asymspec_limits = limits(self.vllm_config, kv_cache_config)
        super().initialize_from_config(kv_cache_config, *further, **named)

    def compile_or_warm_up_model(self) -> Any:
        """vLLM's, after ours: it fixes the size of work spaces, and our batches have more rows."""
        warm_up(self.model_runner._drafting.rounds)
        return super().compile_or_warm_up_model()

    def asymspec_limits(self) -> dict[str, Any]:
        """The fields of Limits, for the API server, which asks by this name."""
        return asdict(self._asymspec_limits)

    def reload_weights(self, *further: Any, **named: Any) -> None:
        """Refused: cached views would outlive the weights that computed them."""
        raise ConfigurationError(
            "weights can't be reloaded in place while AsymSpec serves; restart the engine"
        )
