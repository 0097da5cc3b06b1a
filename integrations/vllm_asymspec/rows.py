"""What the drafter reads in one forward, and what draft rounds need of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .seen import Shown

if TYPE_CHECKING:
    from .sight import Sight

__all__ = ["Lengths", "ReadsRows", "Rows"]

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Tokens of several sequences for one forward, each behind what its blocks hold already.

    tokens and places (where in the pool their keys and values go): [N]. positions: [N], or [dims, N]; in a
    sequence with images they need not be the tokens' places in it. tables [R, W]: the blocks of each
    sequence. lengths [R]: with the new tokens. query_lens and length_bounds [R], on the host: new tokens of
    each sequence, and a length none exceeds. shown: which tokens stand for images.
    """

    tokens: Tensor
    positions: Tensor
    places: Tensor
    tables: Tensor
    lengths: Tensor
    query_lens: Lengths
    length_bounds: Lengths
    shown: Sequence[Shown] = ()


class ReadsRows(Protocol):
    """What rounds need of the drafter."""

    @property
    def max_tokens(self) -> int:
        """The most tokens of one forward."""
        ...

    @property
    def sight(self) -> Sight | None:
        """How it sees images; None if it doesn't."""
        ...

    def read(self, rows: Rows) -> Tensor:
        """Hidden states [N, hidden]; keys and values go to their places."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [n, logits_size]."""
        ...
