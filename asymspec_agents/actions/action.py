"""One action of an agent: the tool it names, its arguments, and what had to be changed to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Action"]


@dataclass(frozen=True, slots=True)
class Action:
    """A call that its tool's schema allows; `changes` says what was mended or converted to read it."""

    name: str
    arguments: dict[str, Any]
    changes: tuple[str, ...] = ()
