"""How compressed views are made: methods by name (`methods`), calls (`maker`), agents' runs (`routing`)."""

from .maker import MadeView, ViewMaker
from .meter import Effort, Meter
from .methods import ViewMeans, check_view, list_views
from .rendering import TextTokens
from .routing import RouterLimits, measured_router

__all__ = [
    "Effort",
    "MadeView",
    "Meter",
    "RouterLimits",
    "TextTokens",
    "ViewMaker",
    "ViewMeans",
    "check_view",
    "list_views",
    "measured_router",
]
