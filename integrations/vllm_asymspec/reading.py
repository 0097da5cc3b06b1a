"""What of a request the drafter reads, and by which rule it is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from asymspec_agents.protocol import AsymSpecOptions

from .wire_args import BYTES_PER_ID, AsymSpecArgs

__all__ = ["Reading", "reading_of"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a request the drafter reads, and by which rule it decodes.

    `strict`: both views are the same, so the rule is `strict`, whatever the options say. `full_delta` and
    `base_delta`: the length of the drafter's views less that of the verifier's prompt.
    """

    options: AsymSpecOptions
    has_base: bool
    strict: bool
    full_delta: int
    base_delta: int

    @property
    def mode(self) -> str:
        """The name of what runs."""
        return "strict" if self.strict else self.options.mode_name

    @property
    def fallback(self) -> str | None:
        """Why that differs from what was asked."""
        return "identical_views" if self.strict else None


def reading_of(args: AsymSpecArgs, compressed_ids: bytes) -> Reading:
    """What the drafter reads of a request with this compressed view (as `pack_ids` packs it)."""
    base_ids = args.base_ids or compressed_ids
    identical = args.full_ids == base_ids and not args.num_images
    strict = identical and args.options.identical_views == "strict"
    return Reading(
        options=args.options,
        has_base=not identical and args.options.rule().needs_base,
        strict=strict,
        full_delta=(len(args.full_ids) - len(compressed_ids)) // BYTES_PER_ID,
        base_delta=(len(base_ids) - len(compressed_ids)) // BYTES_PER_ID,
    )
