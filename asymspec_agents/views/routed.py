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


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """What one call's views hold and what they left out; never a content.

    `full_tokens` and `compressed_tokens` count whole prompts with tools and template, by estimate unless
    `is_exact`. `turn_tiers` is each turn's furthest tier. `num_degraded` counts the parts whose compressor
    failed. `changes` are the compressed view's, `drafter_cuts` those of the full view. Of the attachments,
    `num_degraded_attachments` are those that a note stands for, whole or in part.
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
    num_documents: int
    num_images: int
    num_degraded_attachments: int


@dataclass(frozen=True, slots=True)
class RoutedContext:
    """Both views of one call: the full one, and the edits and tools that make the compressed one of it."""

    full: tuple[Message, ...]
    edits: tuple[Edit, ...]
    tools: tuple[ToolSpec, ...]
    compressed_tools: tuple[ToolSpec, ...]
    report: RoutingReport

    @property
    def compressed(self) -> tuple[Message, ...]:
        """The compressed view's messages."""
        return apply_edits(self.full, self.edits)

    def request(self, options: AsymSpecOptions | None = None) -> AsymSpecRequest:
        """The `asymspec` object of this call's request: the edits, the tools where they differ, options."""
        fields = set(AsymSpecOptions.model_fields)
        given = options.model_dump(exclude_unset=True, include=fields) if options is not None else {}
        if self.compressed_tools != self.tools:
            given["tools"] = self.compressed_tools
        return AsymSpecRequest(**given, edits=self.edits)
