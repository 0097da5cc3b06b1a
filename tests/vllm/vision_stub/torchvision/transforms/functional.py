"""The older interface."""

from __future__ import annotations

from typing import Any

from .v2.functional import pil_to_tensor

__all__ = ["pil_to_tensor", "to_pil_image"]


def to_pil_image(*_: Any, **__: Any) -> Any:
    """Not here: only the name is imported."""
    raise NotImplementedError
