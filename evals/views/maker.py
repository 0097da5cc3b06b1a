"""The compressed view of a call, by a method: edits of its long parts, and the tools' signatures."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from asymspec_agents.compress.base import Compressor
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import Edit
from asymspec_agents.router import ContextRouter
from asymspec_agents.store import content_hash
from asymspec_agents.views.tool_view import signature_tools

from ..cells import ViewSpec
from ..sample import LongPart
from .meter import Effort, Meter
from .methods import ViewMeans, check_view
from .routing import RouterLimits, measured_router

__all__ = ["MadeView", "ViewMaker", "text_of"]

MAX_KEPT = 20_000  # renditions, which are short; the arms of one sample share them


@dataclass(frozen=True, slots=True)
class MadeView:
    """Both views: `messages` and `full_tools` are the full one, edits and `tools` make the compressed one."""

    messages: tuple[Message, ...]
    edits: tuple[Edit, ...]
    full_tools: tuple[ToolSpec, ...]
    tools: tuple[ToolSpec, ...]
    effort: Effort


class ViewMaker:
    """Makes the views of one spec; arms on the same view get the same renditions, each at their full cost.

    Raises ConfigurationError where the method is unknown, has a wrong size, or lacks what it needs.
    """

    def __init__(self, spec: ViewSpec, means: ViewMeans) -> None:
        self.spec = spec
        self._method = check_view(spec, means)
        self._means = means
        self._meter = Meter()
        self._making = threading.Lock()  # one rendition at a time: what the meter shows is then its own
        self._compressor: Compressor | None = None
        self._kept: OrderedDict[str, tuple[str, Effort]] = OrderedDict()

    def make(
        self,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...],
        *,
        query: str,
        long_parts: Sequence[LongPart],
        limits: RouterLimits,
    ) -> MadeView:
        """The views of one call. Raises ConfigurationError for a long part that is no text."""
        if self.spec.method == "router":
            meter = Meter()
            routed = self.router(limits, meter).route(messages, tools, task=query or None)
            return MadeView(routed.full, routed.edits, tools, routed.compressed_tools, meter.take())
        if self.spec.method == "none":
            return MadeView(messages, (), tools, tools, Effort())
        started_s = time.monotonic()
        short_tools = signature_tools(tools, self._means.tokens.counter.count, 0.0)
        effort = Effort(time.monotonic() - started_s)
        edits: list[Edit] = []
        if self._method.compressor is not None:
            parts = list(dict.fromkeys(long_parts))
            texts = [text_of(messages, part) for part in parts]
            for part, text, target in zip(parts, texts, self._targets(texts), strict=True):
                shortened, own = self._shortened(text, query, target)
                effort += own
                if shortened != text or part.text is not None:
                    edits.append(Edit(message=part.message, part=part.part, text=shortened))
        return MadeView(messages, tuple(edits), tools, short_tools, effort)

    def router(self, limits: RouterLimits, meter: Meter) -> ContextRouter:
        """The router of an agent's run, which makes its views by this method; its work goes to the meter."""
        compressor = None if self._method.compressor is None else self._method.compressor(self._means, meter)
        return measured_router(self.spec, compressor, self._means.tokens.counter, limits, meter)

    def _targets(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text may have: its share, or its part of the budget in proportion."""
        sizes = [self._means.tokens.counter.count(text) for text in texts]
        total = sum(sizes)
        if self.spec.size is None or self.spec.size <= 1:
            return [self.spec.target_tokens(size) for size in sizes]
        budget = self.spec.target_tokens(total)
        return sizes if total <= budget else [max(1, budget * size // total) for size in sizes]

    def _shortened(self, text: str, query: str, target: int) -> tuple[str, Effort]:
        key = content_hash(json.dumps([text, query, target]))
        with self._making:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if self._compressor is None and self._method.compressor is not None:
                self._compressor = self._method.compressor(self._means, self._meter)
            assert self._compressor is not None
            self._meter.take()
            started_s = time.monotonic()
            counter = self._means.tokens.counter
            shortened = text
            if counter.count(text) > target:
                shortened = self._compressor.compress(
                    text, query=query, target_tokens=target, counter=counter
                ).text
            effort = Effort(time.monotonic() - started_s) + self._meter.take()
            self._kept[key] = (shortened, effort)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def text_of(messages: Sequence[Message], part: LongPart) -> str:
    """The text of a long part, or that stands for it; raises ConfigurationError where there is none."""
    place = f"long part (message={part.message}, part={part.part})"
    if not 0 <= part.message < len(messages):
        raise ConfigurationError(f"{place}: there are {len(messages)} messages")
    content = messages[part.message].content
    if isinstance(content, str) and part.part is None:
        return content
    if isinstance(content, tuple) and part.part is not None and 0 <= part.part < len(content):
        text = content[part.part].text if part.text is None else part.text
        if text is not None:
            return text
    raise ConfigurationError(f"{place}: no text stands there; part is None where the content is a string")
