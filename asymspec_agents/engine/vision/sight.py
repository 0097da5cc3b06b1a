"""Where in a prompt images stand, and at which positions its tokens are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .looking import Look

__all__ = ["Seen", "Sight"]


@dataclass(frozen=True, slots=True)
class Seen:
    """Neighbouring rows of an image: prompt places `start` to `stop` show its rows from `first` on."""

    start: int
    stop: int
    look: Look
    first: int

    @property
    def is_last(self) -> bool:
        """Whether no further row of the image follows."""
        return self.first + self.stop - self.start == self.look.layout.num_rows


class Sight:
    """The images of one prompt, whose ids are negative where they show; `looks` in the order they stand in.

    With `has_grid_positions` places have three positions (M-RoPE, arXiv 2409.12191): text counts on in all
    three, an image spans its grid from where it stands, and what follows goes on behind its longer side.
    """

    def __init__(self, ids: Sequence[int], looks: Sequence[Look], *, has_grid_positions: bool) -> None:
        self.looks = tuple(looks)
        self.num_places = len(ids)
        self._seen = tuple(_seen(np.asarray(ids, dtype=np.int64), self.looks))
        self._positions = self._grid_positions() if has_grid_positions else np.arange(len(ids))[None]
        # Behind the prompt all positions count on: what they are ahead of (or behind) the place.
        self._ahead = int(self._positions.max()) + 1 - len(ids) if len(ids) else 0

    def positions(self, start: int, count: int) -> NDArray[np.int64]:
        """Positions of `count` places from `start` on, those behind the prompt too: [1 or 3, count]."""
        behind = np.arange(max(start, self.num_places), start + count) + self._ahead
        within = self._positions[:, start : start + count]
        return np.concatenate([within, np.broadcast_to(behind, (len(within), len(behind)))], axis=1)

    def seen(self, start: int, stop: int) -> Iterator[Seen]:
        """The rows of images at the places from `start` to `stop`."""
        for part in self._seen:
            first, last = max(part.start, start), min(part.stop, stop)
            if first < last:
                yield Seen(first, last, part.look, part.first + first - part.start)

    def _grid_positions(self) -> NDArray[np.int64]:
        pieces: list[NDArray[np.int64]] = []
        place = position = 0
        for part in self._seen:
            text = np.arange(part.start - place) + position
            pieces.append(np.broadcast_to(text, (3, len(text))))
            position += len(text)
            height, width = part.look.layout.grid or (1, part.look.layout.num_rows)
            grid = np.indices((1, height, width)).reshape(3, -1) + position
            pieces.append(grid)
            position += max(height, width)
            place = part.stop
        text = np.arange(self.num_places - place) + position
        pieces.append(np.broadcast_to(text, (3, len(text))))
        return np.concatenate(pieces, axis=1)


def _seen(ids: NDArray[np.int64], looks: Sequence[Look]) -> Iterator[Seen]:
    shows = np.concatenate([[False], ids < 0, [False]])
    edges = np.flatnonzero(shows[1:] != shows[:-1])
    waiting = iter(looks)
    look, first = None, 0
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        while start < stop:  # images may stand side by side
            if look is None or first == look.layout.num_rows:
                look, first = next(waiting), 0
            count = min(stop - start, look.layout.num_rows - first)
            yield Seen(start, start + count, look, first)
            start, first = start + count, first + count
