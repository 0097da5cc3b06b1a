"""vLLM in this process as a backend: what LocalBackend answers, batched and fast.

For smolagents, where VLLMModel would run one model: `AsymSpecModel(VLLMBackend.start(verifier, drafter))`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from asymspec_agents.backends.answer import ChatDelta
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.config import environment
from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from asymspec_agents.weights import DEFAULT_PAIR, ProgressCallback, resolve

from .distribution import is_cpu_build
from .launch import CPU_MEMORY_SHARE, is_cpu_memory_set
from .offline import engine_arguments
from .vocabularies import IN_TURN_ONLY, Vocabularies

__all__ = ["VLLMBackend"]


class VLLMBackend(LocalBackend):
    """Answers with vLLM's engine; requests from any number of threads and tasks are batched.

    Views are rendered, answers parsed and refusals made by the same code as in LocalBackend. Arms: asymspec,
    floor and ceiling. vLLM runs in processes of its own, so a script that makes one must be importable: keep
    its work under `if __name__ == "__main__"`. Close it when done.
    """

    @classmethod
    def start(
        cls,
        verifier: str = DEFAULT_PAIR.verifier,
        drafter: str = DEFAULT_PAIR.drafter,
        *,
        num_draft_tokens: int = 2,
        tensor_parallel_size: int = 1,
        settings: Mapping[str, Any] | None = None,
        vocab_map: str | Path | None = None,
        progress: ProgressCallback | None = None,
        **engine_fields: Any,
    ) -> VLLMBackend:
        """A backend over two models named by local folder, preset or hub name; fetches what is missing.

        `settings` are those of PluginConfig, `engine_fields` further ones of vLLM's AsyncEngineArgs.
        `vocab_map` lets a drafter of another family take part: the file of a map, or "auto". Raises
        MissingDependencyError without vLLM, and IncompatibleModelsError for models with different
        vocabularies and no map.
        """
        try:
            import vllm  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError("vllm", "vllm") from error
        from .batched_start import start_engine

        is_memory_set = engine_fields.keys() & {"gpu_memory_utilization", "kv_cache_memory_bytes"}
        if is_cpu_build() and not is_memory_set and not is_cpu_memory_set(environment()):
            engine_fields["gpu_memory_utilization"] = CPU_MEMORY_SHARE

        folders = [resolve(name, progress=progress) for name in (verifier, drafter)]
        places = str(folders[0].path), str(folders[1].path)
        vocabularies = Vocabularies.of(*places, vocab_map)
        if vocabularies.needs_first_runner and engine_fields.get("async_scheduling"):
            raise ConfigurationError(f"async_scheduling: {IN_TURN_ONLY}")
        arguments = engine_arguments(
            places[1],
            num_draft_tokens=num_draft_tokens,
            tensor_parallel_size=tensor_parallel_size,
            settings=settings,
            vocabularies=vocabularies,
        )
        started = start_engine(folders[0].path, {**engine_fields, **arguments}, (verifier, drafter))
        engine: Any = started.engine
        return cls(engine, started.template, drafter_template=started.drafter_template)

    def with_arm(self, arm: str) -> VLLMBackend:
        """A backend over the same engine that decodes AsymSpec requests by another arm."""
        return VLLMBackend(self.engine, self.template, arm=arm, drafter_template=self.drafter_template)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        return _without_segments(super().stream(request, abort=abort))

    def close(self) -> None:
        """Ends vLLM's processes, and what still runs in them."""
        cast(Any, self.engine).close()


def _without_segments(deltas: Iterator[ChatDelta]) -> Iterator[ChatDelta]:
    """vLLM doesn't say which token was accepted and which was not."""
    try:
        for delta in deltas:
            yield replace(delta, segments=())
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()
