"""The scheduler by the one name that fits every configuration."""

from __future__ import annotations

from typing import Any

from .scheduler import AsymSpecAsyncScheduler, AsymSpecScheduler

__all__ = ["AnyAsymSpecScheduler"]


class AnyAsymSpecScheduler(AsymSpecScheduler):
    """Becomes the asynchronous or the synchronous scheduler, whichever vLLM settled on in the end.

    Whether scheduling is asynchronous depends on platform, executor and flags, which only vLLM puts together.
    """

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        is_async = vllm_config.scheduler_config.async_scheduling
        kind: Any = AsymSpecAsyncScheduler if is_async else AsymSpecScheduler
        return kind(vllm_config, *args, **kwargs)
