"""What a backend is: it takes a request that carries both views and answers it, whole or in a stream."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import UnsupportedRequestError
from ..messages import Message, ToolSpec
from .answer import ChatDelta, ChatResponse, collect
from .request import AnyRequest

__all__ = ["Backend", "Capabilities", "PromptCounter"]

PromptCounter = Callable[[Sequence[Message], Sequence[ToolSpec]], int]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do: model names, AsymSpec modes (empty: none), and both views' token limits.

    `cross_family`: the drafter has a vocabulary of its own, and takes part through a map. `sees_images`: the
    drafter sees the images of the full view, up to `max_images` of `max_image_pixels` each (None: unknown).
    """

    verifier: str
    drafter: str | None
    modes: tuple[str, ...] = ()
    max_verifier_tokens: int | None = None
    max_drafter_tokens: int | None = None
    cross_family: bool = False
    sees_images: bool = False
    max_images: int | None = None
    max_image_pixels: int | None = None


class Backend(ABC):
    """Answers requests. A subclass writes `capabilities` and `stream`; the other forms follow.

    Invariants: deltas' contents concatenate to the response's content; usage and report come once, last.
    Closing a stream early, or cancelling an async one, aborts the request.
    """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do."""

    @abstractmethod
    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        """The answer step by step; setting `abort` ends it at the next chance.

        What is wrong with a request may be raised here already, or with the first step.
        """

    def generate(self, request: AnyRequest) -> ChatResponse:
        """The whole answer."""
        return collect(self.stream(request))

    async def astream(self, request: AnyRequest) -> AsyncIterator[ChatDelta]:
        """The answer step by step; the synchronous stream runs in a thread of its own."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[ChatDelta | BaseException | None] = asyncio.Queue()
        cancelled = threading.Event()

        def put(item: ChatDelta | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody waits any more
                cancelled.set()

        def pump() -> None:
            try:
                deltas = self.stream(request, abort=cancelled)
                try:
                    for delta in deltas:
                        if cancelled.is_set():
                            return
                        put(delta)
                finally:
                    close = getattr(deltas, "close", None)
                    if close is not None:
                        close()
                put(None)
            except BaseException as error:  # handed to the awaiting caller
                put(error)

        context = contextvars.copy_context()  # what is recorded there belongs to the caller's trace
        name = f"asymspec-{request.request_id[:8]}"
        thread = threading.Thread(target=context.run, args=(pump,), name=name, daemon=True)
        thread.start()
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            cancelled.set()

    async def agenerate(self, request: AnyRequest) -> ChatResponse:
        """The whole answer, awaited; cancelling the task aborts the request."""
        return collect([delta async for delta in self.astream(request)])

    @property
    def prompt_counter(self) -> PromptCounter | None:
        """Counts the tokens of a prompt exactly (messages, tools); None where it can only be estimated."""
        return None

    def with_model(self, name: str) -> Backend:
        """A backend that answers by the model of this name; the default knows its verifier only.

        Raises UnsupportedRequestError where there is no such model, if that can be told before a request.
        """
        verifier = self.capabilities.verifier
        if name != verifier:
            raise UnsupportedRequestError(f"model={name!r} is not the backend's model, which is {verifier!r}")
        return self

    def close(self) -> None:
        """Releases what the backend holds; the default holds nothing."""
        return
