"""The models under test, here or behind a server, and every arm they can answer."""

from .base import System
from .opening import open_system
from .options import SystemOptions

__all__ = ["System", "SystemOptions", "open_system"]
