"""Listens to what the engine answers to one request, before vLLM's own server sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from ..heard import Heard

__all__ = ["EngineTap"]


class EngineTap:
    """vLLM's engine client as one request sees it; everything but `generate` is the client's own."""

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

    async def _read(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(self._engine.generate(*args, **kwargs)) as outputs:
                async for output in outputs:
                    self._heard.take(output)
                    yield output
        finally:
            self._at_end()
