"""Where an answer ends: at EOS, a stop string, its grammar's end or max_tokens, also in mid-block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .loop import Block, TokenOrigin
from .text import TextStream

__all__ = ["Step", "Trimmer"]


@dataclass(frozen=True, slots=True)
class Step:
    """One block as the caller sees it, trimmed: tokens with origins, and text pieces with theirs."""

    tokens: tuple[int, ...]
    origins: tuple[TokenOrigin, ...]
    pieces: tuple[tuple[str, TokenOrigin], ...]


class Trimmer:
    """Cuts blocks to what the answer keeps; `finish_reason` is set once the answer is complete.

    An EOS token counts as a token but has no text. A stop string is no part of the text.
    """

    def __init__(self, text: TextStream, eos_token_ids: frozenset[int], max_tokens: int) -> None:
        self._text = text
        self._eos_token_ids = eos_token_ids
        self._max_tokens = max_tokens
        self.num_tokens = 0
        self.finish_reason: Literal["stop", "length"] | None = None

    def trim(self, block: Block, *, is_full: bool = False) -> Step:
        """The part of the block that belongs to the answer; `is_full`: there is no room for another block."""
        tokens: list[int] = []
        pieces: list[tuple[str, TokenOrigin]] = []
        for token, origin in zip(block.tokens, block.origins, strict=True):
            tokens.append(token)
            self.num_tokens += 1
            if token in self._eos_token_ids:
                self.finish_reason = "stop"
            else:
                pieces.append((self._text.push(token), origin))
                if self._text.is_stopped or len(tokens) == block.complete_at:
                    self.finish_reason = "stop"
                elif self.num_tokens >= self._max_tokens:
                    self.finish_reason = "length"
            if self.finish_reason is None and is_full and len(tokens) == len(block.tokens):
                self.finish_reason = "length"
            if self.finish_reason is not None:
                pieces.append((self._text.finish(), origin))
                break
        return Step(
            tuple(tokens),
            block.origins[: len(tokens)],
            tuple(piece for piece in pieces if piece[0]),
        )
