"""The asker: an arm on a view as a suite sees it. It makes the views, sends, and accounts for every call."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asymspec_agents.backends import Backend, ChatRequest, ChatResponse
from asymspec_agents.messages import Message, ToolSpec, parse_messages, parse_tools
from asymspec_agents.protocol import AsymSpecRequest, apply_edits
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import TokenCounter
from asymspec_agents.views import ViewPolicy

from .answering import Answering, PromptLength
from .cells import Cell
from .recorded import RecordedBackend
from .records import Call, Output
from .sample import LongPart
from .views import Meter, RouterLimits, ViewMaker, measured_router
from .views.images import texts_of
from .views.maker import MadeView
from .views.meter import Effort
from .views.routing import untouched
from .views.shown import shown_views

__all__ = ["ArmAsker", "Means"]


@dataclass(frozen=True, slots=True)
class Means:
    """What an asker has of its system: who answers, who makes the views, what counts prompts and memory.

    `maker` None: the arm reads the full view only. `peak_memory` tells bytes since the asker was made, None
    where they cannot be told. `sees_images`: all who read the full view do, or where nobody does, all who
    read the compressed one; `compressed_sees_images`: all who read the compressed view do.
    """

    answering: Answering
    maker: ViewMaker | None
    prompt_length: PromptLength
    limits: RouterLimits
    counter: TokenCounter
    sees_images: bool
    compressed_sees_images: bool
    peak_memory: Callable[[], int | None]


class ArmAsker:
    """An Asker. One serves one sample; its calls have caches of their own, which no other asker's find."""

    def __init__(self, cell: Cell, means: Means) -> None:
        self._cell = cell
        self._means = means
        self._meter = Meter()
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._last: ChatRequest | None = None
        self._started_s = time.monotonic()
        self._backend = RecordedBackend(means.answering, self._keep, cache_salt=uuid.uuid4().hex)

    @property
    def cell(self) -> Cell:
        """Which arm, on which view."""
        return self._cell

    @property
    def sees_images(self) -> bool:
        """Whether all models that read the full view see images; else they are given text."""
        return self._means.sees_images

    def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] = (),
        *,
        query: str = "",
        long_parts: Sequence[LongPart] = (),
        max_tokens: int,
        stop: Sequence[str] = (),
    ) -> ChatResponse:
        """One call, greedily, on views of these messages."""
        full = parse_messages(messages)
        parts = tuple(long_parts)
        if not self._means.sees_images:
            full = apply_edits(full, texts_of(parts))
            parts = tuple(replace(part, text=None) for part in parts)
        limits = replace(self._means.limits, max_answer_tokens=max_tokens)
        view = self._view(full, parse_tools(tools), query, parts, limits)
        self._meter.add(view.effort)
        asymspec: dict[str, Any] = {"edits": view.edits}
        if view.tools != view.full_tools:
            asymspec["tools"] = view.tools
        request = ChatRequest(
            messages=view.messages,
            tools=view.full_tools,
            asymspec=AsymSpecRequest.of(**asymspec),
            max_tokens=max_tokens,
            stop=tuple(stop),
        )
        return self._backend.generate(request)

    def backend(self) -> Backend:
        """The arm as a backend; its calls are recorded as those of `ask`."""
        return self._backend

    def router(self, policy: ViewPolicy | None = None) -> ContextRouter:
        """The router of the cell's view; both views stay the same where the arm reads the full one only."""
        if self._means.maker is None:
            whole = untouched(tool_signatures=False)
            return measured_router(
                whole,
                None,
                self._means.counter,
                self._means.limits,
                self._meter,
                keeps_images=self._means.sees_images,
            )
        return self._means.maker.router(
            self._means.limits, self._meter, policy, keeps_images=self._means.sees_images
        )

    def output(self, answer: str, **fields: Any) -> Output:
        """The answer with every call until now, the views of the last one, time and peak memory."""
        with self._lock:
            calls, last = tuple(self._calls), self._last
        defaults: dict[str, Any] = {
            "calls": calls,
            "elapsed_s": time.monotonic() - self._started_s,
            "peak_memory_bytes": self._means.peak_memory(),
            "views": () if last is None else shown_views(last),
        }
        return Output(answer=answer, **{**defaults, **fields})

    def _view(
        self,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...],
        query: str,
        long_parts: Sequence[LongPart],
        limits: RouterLimits,
    ) -> MadeView:
        if self._means.maker is None:
            return MadeView(messages, (), tools, tools, Effort())
        return self._means.maker.make(
            messages,
            tools,
            query=query,
            long_parts=long_parts,
            limits=limits,
            sees_images=self._means.compressed_sees_images,
        )

    def _keep(self, call: Call, request: ChatRequest) -> None:
        effort = self._meter.take()
        full_tokens, compressed_tokens = self._sizes(call, request)
        counted = call.model_copy(
            update={
                "full_tokens": full_tokens,
                "compressed_tokens": compressed_tokens,
                "compress_s": effort.elapsed_s,
                "extra_flops": effort.flops,
            }
        )
        with self._lock:
            self._calls.append(counted)
            self._last = request

    def _sizes(self, call: Call, request: ChatRequest) -> tuple[int | None, int | None]:
        """Both views' prompts in tokens of the verifier; no compressed one where the arm reads none."""
        length = self._means.prompt_length
        full_tokens = length(request.messages, request.tools)
        asymspec = request.asymspec
        if self._cell.view is None:
            return full_tokens, None
        if asymspec is None:
            return full_tokens, full_tokens
        tools = request.tools if asymspec.tools is None else asymspec.tools
        return full_tokens, length(asymspec.compressed_messages(request.messages), tools)
