"""AsymSpec for smolagents.

`AsymSpecModel` is a smolagents model over an AsymSpec backend. `RoutedModel` wraps any smolagents model and
gives it the compressed view. `instrument` sets an agent up for the finest routing.
"""

from __future__ import annotations

from .instrument import instrument
from .model import AsymSpecModel
from .registry import register_smolagents
from .routed import RoutedModel

__all__ = ["AsymSpecModel", "RoutedModel", "instrument", "register_smolagents"]

register_smolagents()
