"""The compressed view of a call, by a method: edits of its long parts, and the tools' signatures."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from asymspec_agents.attachments.once import Kept
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import Edit
from asymspec_agents.router import ContextRouter
from asymspec_agents.store import content_hash
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.tool_view import signature_tools

from ..cells import ViewSpec
from ..sample import LongPart
from .images import routed_beside_images, texts_of
from .meter import Effort, Meter
from .methods import ViewMeans, check_view
from .routing import RouterLimits, measured_router, policy_of

__all__ = ["MadeView", "ViewMaker", "text_of"]

MAX_KEPT_BYTES = 64 * 1024 * 1024  # of renditions; the arms of one sample share them


@dataclass(frozen=True, slots=True)
class MadeView:
    """Both views: `messages` and `full_tools` are the full one, edits and `tools` make the compressed one."""

    messages: tuple[Message, ...]
    edits: tuple[Edit, ...]
    full_tools: tuple[ToolSpec, ...]
    tools: tuple[ToolSpec, ...]
    effort: Effort


@dataclass(frozen=True, slots=True)
class _Made:
    """A rendition, and what it took."""

    text: str
    effort: Effort


class ViewMaker:
    """Makes the views of one spec; arms on the same view get the same renditions, each at their full cost.

    Any number of threads may call: a rendition that several ask for at once is made once.
    Raises ConfigurationError where the method is unknown, has a wrong size, or lacks what it needs.
    """

    def __init__(self, spec: ViewSpec, means: ViewMeans) -> None:
        self.spec = spec
        self._method = check_view(spec, means)
        self._means = means
        self._kept: Kept[_Made] = Kept(MAX_KEPT_BYTES)
        if self._method.compressor is not None:
            # So that a checkpoint or a model that lacks is missed before the run.
            self._method.compressor(means, Meter())

    def make(
        self,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...],
        *,
        query: str,
        long_parts: Sequence[LongPart],
        limits: RouterLimits,
        sees_images: bool = False,
    ) -> MadeView:
        """The views of one call. Raises ConfigurationError for a long part that is no text.

        A long part with a `text` of its own is that text in the compressed view, shortened as any other. Only
        the view `none` leaves the part itself there, where all who read it see images (`sees_images`).
        """
        long_parts = tuple(dict.fromkeys(long_parts))
        if self.spec.method == "router":
            meter = Meter()
            routed = routed_beside_images(self.router(limits, meter), messages, tools, query, long_parts)
            return MadeView(routed.full, routed.edits, tools, routed.compressed_tools, meter.take())
        if self.spec.method == "none":
            return MadeView(messages, () if sees_images else texts_of(long_parts), tools, tools, Effort())
        started_s = time.monotonic()
        short_tools = signature_tools(tools, self._means.tokens.counter.count, 0.0)
        effort = Effort(time.monotonic() - started_s)
        edits: list[Edit] = []
        if self._method.compressor is None:
            edits += texts_of(long_parts)
        else:
            texts = [text_of(messages, part) for part in long_parts]
            for part, text, target in zip(long_parts, texts, self._targets(texts), strict=True):
                made = self._shortened(text, query, target)
                effort += made.effort
                if made.text != text or part.text is not None:
                    edits.append(Edit(message=part.message, part=part.part, text=made.text))
        return MadeView(messages, tuple(edits), tools, short_tools, effort)

    def router(
        self,
        limits: RouterLimits,
        meter: Meter,
        policy: ViewPolicy | None = None,
        *,
        keeps_images: bool = False,
    ) -> ContextRouter:
        """The router of an agent's run, which makes its views by this method; its work goes to the meter.

        `policy` None: the one that follows from the size, which is the router's ratio up to 1, else the most
        tokens of a rendition. With `keeps_images` images stay in the full view.
        """
        compressor = None if self._method.compressor is None else self._method.compressor(self._means, meter)
        return measured_router(
            policy or policy_of(self.spec),
            compressor,
            self._means.tokens.counter,
            limits,
            meter,
            keeps_images=keeps_images,
        )

    def _targets(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text may have: its share, or its part of the budget in proportion."""
        sizes = [self._means.tokens.counter.count(text) for text in texts]
        total = sum(sizes)
        if self.spec.size is None or self.spec.size <= 1:
            return [self.spec.target_tokens(size) for size in sizes]
        budget = self.spec.target_tokens(total)
        return sizes if total <= budget else [max(1, budget * size // total) for size in sizes]

    def _shortened(self, text: str, query: str, target: int) -> _Made:
        key = content_hash(json.dumps([text, query, target]))
        return self._kept.get(key, lambda: self._made(text, query, target))

    def _made(self, text: str, query: str, target: int) -> _Made:
        meter = Meter()  # of its own, as others may be made meanwhile
        compressor = None if self._method.compressor is None else self._method.compressor(self._means, meter)
        counter = self._means.tokens.counter
        started_s = time.monotonic()
        shortened = text
        if compressor is not None and counter.count(text) > target:
            shortened = compressor.compress(text, query=query, target_tokens=target, counter=counter).text
        return _Made(shortened, Effort(time.monotonic() - started_s) + meter.take())


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
