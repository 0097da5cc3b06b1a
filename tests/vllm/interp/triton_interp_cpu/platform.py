"""vLLM's CPU platform, which turns asynchronous scheduling off, with the choice given back to the test."""

from __future__ import annotations

from typing import Any

from vllm.platforms.cpu import CpuPlatform


class TestPlatform(CpuPlatform):  # type: ignore[misc]
    """Schedules asynchronously where the configuration says so."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        is_async = vllm_config.scheduler_config.async_scheduling
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.async_scheduling = is_async


def platform() -> str:
    """The class, by the name vLLM imports it under."""
    return f"{__name__}.TestPlatform"
