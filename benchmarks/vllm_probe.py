"""Looks into a running vLLM server for `vllm_long_run.py`, from within its processes.

`Probe` extends the worker (--worker-extension-cls) and is asked through vLLM's development route
`/collective_rpc`, which runs it between two steps. `WatchedScheduler` (--scheduler-cls) writes down what it
still knows whenever no request is left.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from vllm_asymspec.scheduler import AsymSpecScheduler

__all__ = ["Probe", "WatchedScheduler"]


class WatchedScheduler(AsymSpecScheduler):
    """Writes its state to the configured `state_file`; what is counted as in use must be nothing then."""

    _peak_pool_blocks = 0

    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        self._peak_pool_blocks = max(self._peak_pool_blocks, self._views.pool.num_used)
        outputs = super().update_from_output(*args, **kwargs)
        if not self.requests:
            path = Path(self.vllm_config.additional_config["state_file"])
            path.with_suffix(".new").write_text(json.dumps(self._state()), "utf-8")
            path.with_suffix(".new").replace(path)
        return outputs

    def _state(self) -> dict[str, int]:
        views, verifier = self._views, self.kv_cache_manager.block_pool
        return {
            "waiting": len(self.running) + len(list(self.waiting)) + len(self.deferred_waiting),
            "refused": len(self._refused),
            "warming": len(self._warming) + len(self._warming._ages),
            "views": len(views._entries) + len(views.holders()),
            "pool_blocks": views.pool.num_used,
            "verifier_blocks": verifier.num_gpu_blocks - 1 - verifier.get_num_free_blocks(),
            "cached_blocks": views.pool.num_cached,
            "peak_pool_blocks": self._peak_pool_blocks,
            "usable_pool_blocks": views.limits.pool.num_usable_blocks,
        }


class Probe:
    """Becomes a base of the worker."""

    model_runner: Any

    def asymspec_probe(self) -> dict[str, Any]:
        """Requests with a slot, and whether a buffer holds NaN."""
        rounds = self.model_runner._drafting.rounds
        buffers = [rounds.slots.full_logits, rounds.slots.base_logits, *_caches(self.model_runner)]
        return {
            "slots": len(rounds.slots),
            "num_buffers": len(buffers),
            "has_nan": any(bool(torch.isnan(buffer).any()) for buffer in buffers),
        }


def _caches(runner: Any) -> list[torch.Tensor]:
    """Keys and values of both models."""
    layers = runner.compilation_config.static_forward_context.values()
    caches = [layer.kv_cache for layer in layers if hasattr(layer, "kv_cache")]
    flat = [cache if isinstance(cache, list | tuple) else [cache] for cache in caches]
    return [tensor for tensors in flat for tensor in tensors if isinstance(tensor, torch.Tensor)]
