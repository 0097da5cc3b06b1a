"""Stretches of views that the drafter reads in one forward, and the positions of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .seen import SeenView

__all__ = ["Piece", "positions_of"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens `ids` of a view from place `start` on; `row` of the tables, `seen` if it has images."""

    row: int
    start: int
    ids: NDArray[np.int64]
    seen: SeenView | None

    @property
    def stop(self) -> int:
        """The place behind its last token."""
        return self.start + len(self.ids)

    def positions(self) -> Tensor:
        """What the drafter takes for their positions: [n], or [dims, n]."""
        places = torch.arange(self.start, self.stop)
        if self.seen is None:
            return places
        if self.seen.positions is None:
            return places + self.seen.shift
        known = self.seen.positions[:, self.start : self.stop]
        behind = places[known.shape[1] :] + self.seen.shift  # an answer that is read again
        return torch.cat([known, behind.expand(len(known), -1)], dim=1)


def positions_of(pieces: Sequence[Piece]) -> Tensor:
    """The pieces' positions one behind the other: [N], or [dims, N] where one of them has several a token."""
    positions = [piece.positions() for piece in pieces]
    num_dims = max((part.shape[0] for part in positions if part.ndim > 1), default=0)
    if num_dims:
        positions = [part if part.ndim > 1 else part.expand(num_dims, -1) for part in positions]
    return torch.cat(positions, dim=-1)
