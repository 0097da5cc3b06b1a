"""Text in images by RapidOCR, whose models come in its wheel: nothing is fetched."""

from __future__ import annotations

import io
import threading
from typing import Any

from ..errors import ConfigurationError, MissingDependencyError

__all__ = ["RapidOCRReader"]

_TILE, _TILE_OVERLAP, _ENLARGED = 1_024, 128, 1.5
_LEAST_CONTRAST = 16  # of 255, in a tile with something in it
_LINE_OVERLAP = 0.5  # of the lower box's height: pieces that share a line


class RapidOCRReader:
    """A TextReader for printed text, Chinese and Latin script among others.

    Where nothing is found, the image is looked at once more in enlarged pieces: a small line in a large,
    empty picture escapes the first look. Lines of a score under `min_score` are left out. The models (30 MB)
    load at the first image. Raises MissingDependencyError without the extra `vision`.
    """

    def __init__(self, *, min_score: float = 0.5) -> None:
        if not 0 <= min_score <= 1:
            raise ConfigurationError(f"min_score={min_score!r}: must be in [0, 1]")
        self._min_score = min_score
        self._lock = threading.Lock()
        self._engine: Any = None
        try:
            import rapidocr
        except ImportError as error:
            raise MissingDependencyError("rapidocr", "vision") from error
        self._version = getattr(rapidocr, "__version__", "3")

    @property
    def configuration(self) -> str:
        return f"rapidocr/2(version={self._version},min_score={self._min_score:g})"

    def read(self, png: bytes) -> str:
        import numpy as np
        from PIL import Image

        pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[:, :, ::-1]  # the engine takes BGR
        pieces = self._pieces(pixels)
        if not pieces and max(pixels.shape[:2]) > _TILE:
            pieces = self._tiled(pixels)
        return "\n".join(" ".join(piece.text for piece in line) for line in _lines(pieces))

    def _pieces(self, pixels: Any) -> list[_Piece]:
        with self._lock:
            found = self._loaded()(pixels)
        if found.txts is None:
            return []
        return [
            _Piece(text, box)
            for text, score, box in zip(found.txts, found.scores, found.boxes, strict=True)
            if score >= self._min_score
        ]

    def _tiled(self, pixels: Any) -> list[_Piece]:
        """What is found in tiles that overlap, each piece of text once."""
        import numpy as np
        from PIL import Image

        pieces: list[_Piece] = []
        for top in _starts(pixels.shape[0]):
            for left in _starts(pixels.shape[1]):
                tile = pixels[top : top + _TILE, left : left + _TILE]
                if int(tile.max()) - int(tile.min()) < _LEAST_CONTRAST:
                    continue
                size = (int(tile.shape[1] * _ENLARGED), int(tile.shape[0] * _ENLARGED))
                found = self._pieces(np.asarray(Image.fromarray(tile).resize(size, Image.Resampling.LANCZOS)))
                placed = [piece.moved(left, top, _ENLARGED) for piece in found]
                pieces += [piece for piece in placed if not any(piece.is_in(other) for other in pieces)]
        return pieces

    def _loaded(self) -> Any:
        if self._engine is None:
            try:
                from rapidocr import RapidOCR
            except ImportError as error:
                raise MissingDependencyError("onnxruntime", "vision") from error
            self._engine = RapidOCR(params={"Global.log_level": "critical"})
        return self._engine


def _starts(side: int) -> range:
    return range(0, max(1, side - _TILE_OVERLAP), _TILE - _TILE_OVERLAP)


class _Piece:
    def __init__(self, text: str, box: Any) -> None:
        self.text = text
        self.left = min(float(x) for x, _ in box)
        self.right = max(float(x) for x, _ in box)
        self.top = min(float(y) for _, y in box)
        self.bottom = max(float(y) for _, y in box)

    def moved(self, left: int, top: int, scale: float) -> _Piece:
        """The piece of a tile, in the image that the tile is of."""
        sides = ((self.left, self.top), (self.right, self.bottom))
        return _Piece(self.text, [(left + x / scale, top + y / scale) for x, y in sides])

    def is_in(self, other: _Piece) -> bool:
        """Whether its middle lies in the other: the same text, seen in two tiles."""
        is_beside = other.left <= (self.left + self.right) / 2 <= other.right
        return is_beside and other.top <= (self.top + self.bottom) / 2 <= other.bottom


def _lines(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Pieces from left to right in lines from top to bottom: a table's row stays one."""
    lines: list[list[_Piece]] = []
    for piece in sorted(pieces, key=lambda piece: (piece.top, piece.left)):
        first = lines[-1][0] if lines else None
        if first is not None and first.bottom - piece.top > _LINE_OVERLAP * (piece.bottom - piece.top):
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return [sorted(line, key=lambda piece: piece.left) for line in lines]
