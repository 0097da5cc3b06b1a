"""Listens to what the engine answers to one request, before vLLM's own server sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..heard import Heard

__all__ = ["EngineTap"]

# What vLLM's `generate` hands on to its input processor.
PROCESSED = (
    "arrival_time",
    "data_parallel_rank",
    "kv_hints",
    "lora_request",
    "priority",
    "session_id",
    "tokenization_kwargs",
    "trace_headers",
)


class EngineTap:
    """vLLM's engine client as one request sees it; everything but `generate` is the client's own.

    `images`, set before, go with the request as vLLM's own would (see images.py).
    """

    images: Sequence[Any] = ()

    def __init__(self, engine: Any, heard: Heard, at_end: Callable[[], None]) -> None:
        self._engine = engine
        self._heard = heard
        self._at_end = at_end
        self._outputs: AsyncGenerator[Any, None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """The engine's outputs, each read first; `at_end` is called however they end."""
        self._outputs = self._read(*args, **kwargs)
        return self._outputs

    async def close(self) -> None:
        """Ends the request in the engine if it is still there."""
        if self._outputs is not None:
            await self._outputs.aclose()

    async def _read(
        self, prompt: Any, params: Any, request_id: str, **named: Any
    ) -> AsyncGenerator[Any, None]:
        try:
            if self.images:
                prompt = await self._with_images(prompt, params, request_id, named)
            async with aclosing(self._engine.generate(prompt, params, request_id, **named)) as outputs:
                async for output in outputs:
                    self._heard.take(output)
                    yield output
        finally:
            self._at_end()

    async def _with_images(self, prompt: Any, params: Any, request_id: str, named: Mapping[str, Any]) -> Any:
        """The engine's own request: a prompt can't have images that the verifier doesn't take."""
        request = self._engine.input_processor.process_inputs(
            request_id,
            prompt,
            params,
            supported_tasks=("generate",),
            **{name: value for name, value in named.items() if name in PROCESSED},
        )
        request.mm_features = list(self.images)
        return request
