"""What routing a call gives: both views, and a report of what the compressed one leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from ..messages import Message, ToolSpec
from ..protocol import AsymSpecOptions, AsymSpecRequest, Edit, apply_edits
from .replay import Tier

__all__ = ["PartChange", "RoutedContext", "RoutingReport"]


@dataclass(frozen=True, slots=True)
class PartChange:
    """One text that a view does not show in full; `part` is None for string content."""

    message: int
    part: int | None
    tier: Tier
    original_tokens: int
    tokens: int
    compressor: str
    degraded: bool

    def __str__(self) -> str:
        place = f"messages[{self.message}]" + ("" if self.part is None else f".content[{self.part}]")
        tier = self.tier.name.lower().replace("_", " ")
        failed = ", its compressor failed" if self.degraded else ""
        sizes = f"{self.original_tokens:,} -> {self.tokens:,} tokens"
        return f"{place}: {tier}, {sizes} ({self.compressor}{failed})"


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """What one call's views hold and what they left out; never a content.

    `full_tokens` and `compressed_tokens` count whole prompts with tools and template, by estimate unless
    `is_exact`. `turn_tiers` is each turn's furthest tier. `num_degraded` counts the parts whose compressor
    failed. `num_summarized_messages` and `num_summarized_turns` are those that one summary stands for; the
    turns of `turn_tiers` are those after them. `changes` are the compressed view's (its own messages', where
    it has whole ones), `drafter_cuts` those of the full view. Of the attachments, `num_degraded_attachments`
    are those that a note stands for, whole or in part, `num_unseen_images` the images that are text for a
    drafter that sees others: too many, too large, or of another format.
    """

    num_messages: int
    num_turns: int
    num_edits: int
    num_compressed_parts: int
    num_degraded: int
    full_tokens: int
    compressed_tokens: int
    is_exact: bool
    turn_tiers: tuple[Tier, ...]
    changes: tuple[PartChange, ...]
    drafter_cuts: tuple[PartChange, ...]
    num_shortened_tools: int
    num_shortened_docs: int
    num_documents: int = 0
    num_images: int = 0
    num_degraded_attachments: int = 0
    num_unseen_images: int = 0
    num_summarized_messages: int = 0
    num_summarized_turns: int = 0

    def lines(self) -> tuple[str, ...]:
        """What the compressed view leaves out and what the full view had to cut, a line each; no content."""
        counted = "tokens" if self.is_exact else "tokens by estimate"
        said = [f"{self.full_tokens:,} -> {self.compressed_tokens:,} {counted}"]
        if self.num_summarized_messages:
            said.append(
                f"one summary for {self.num_summarized_messages} messages ({self.num_summarized_turns} turns)"
            )
        if self.num_shortened_tools or self.num_shortened_docs:
            said.append(
                f"signatures for {self.num_shortened_tools} tools, "
                f"{self.num_shortened_docs} descriptions in the system prompt"
            )
        if self.num_unseen_images:
            said.append(f"{self.num_unseen_images} of {self.num_images} images as text for the drafter")
        said += [str(change) for change in self.changes]
        said += [f"full view: {change}" for change in self.drafter_cuts]
        return tuple(said)


@dataclass(frozen=True, slots=True)
class RoutedContext:
    """Both views of one call: the full one, and the edits and tools that make the compressed one of it.

    A view that restructures history has whole `messages` instead, and no edits; `sources` are then, for each
    of them, the index of the full view's message it shows, None where it shows none.
    """

    full: tuple[Message, ...]
    edits: tuple[Edit, ...]
    tools: tuple[ToolSpec, ...]
    compressed_tools: tuple[ToolSpec, ...]
    report: RoutingReport
    messages: tuple[Message, ...] | None = None
    sources: tuple[int | None, ...] = ()

    @property
    def compressed(self) -> tuple[Message, ...]:
        """The compressed view's messages."""
        return apply_edits(self.full, self.edits) if self.messages is None else self.messages

    def request(self, options: AsymSpecOptions | None = None) -> AsymSpecRequest:
        """The `asymspec` object of this call's request: the view, the tools where they differ, options."""
        fields = set(AsymSpecOptions.model_fields)
        given = options.model_dump(exclude_unset=True, include=fields) if options is not None else {}
        if self.compressed_tools != self.tools:
            given["tools"] = self.compressed_tools
        if self.messages is not None:
            return AsymSpecRequest(**given, messages=self.messages)
        return AsymSpecRequest(**given, edits=self.edits)
