"""Images of a full view on their way from the server to the drafter.

They are vLLM's own `MultiModalFeatureSpec`s: what the drafter's processor made of an image, the hash of its
content, and where its tokens stand in the view. vLLM carries them with a request from process to process; the
scheduler takes them off it before they could count as the verifier's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.errors import UnsupportedRequestError

__all__ = ["Span", "check_places", "end_of", "spans_of"]

NUM_TEXT_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens `start` to `stop` of a view stand for the image of that content hash."""

    name: str
    start: int
    stop: int

    def key(self, block_start: int) -> bytes:
        """What tells a block that the span reaches into from one with the same tokens and another image."""
        return f"image {self.start - block_start} {self.stop - block_start} {self.name}\n".encode()


def spans_of(images: Sequence[Any]) -> tuple[Span, ...]:
    """Where the images stand, in the order of the view."""
    return tuple(Span(image.identifier, image.mm_position.offset, end_of(image)) for image in images)


def end_of(image: Any) -> int:
    """The place behind an image's last token."""
    return int(image.mm_position.offset + image.mm_position.length)


def check_places(spans: Sequence[Span], num_tokens: int) -> None:
    """Raises UnsupportedRequestError where images don't stand in their view, or are the last thing in it.

    The last two tokens of a view are read again with every draft round, as text.
    """
    if spans and spans[-1].stop > num_tokens - NUM_TEXT_TOKENS:
        raise UnsupportedRequestError(
            f"the full view has an image at its very end (tokens {spans[-1].start:,} to {spans[-1].stop:,} "
            f"of {num_tokens:,}); at least {NUM_TEXT_TOKENS} tokens of text must follow it"
        )
