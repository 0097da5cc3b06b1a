"""Makes smolagents' `Agent.from_dict` and `Agent.from_folder` know this package's models."""

from __future__ import annotations

from ._compat import register_model
from .model import AsymSpecModel
from .routed import RoutedModel

__all__ = ["register_smolagents"]


def register_smolagents() -> None:
    """Registers AsymSpecModel and RoutedModel with smolagents; importing the package has done so already."""
    register_model(AsymSpecModel)
    register_model(RoutedModel)
