"""From options to a system: models here, an AsymSpec server, or any other server."""

from __future__ import annotations

from .base import System
from .options import SystemOptions

__all__ = ["open_system"]


def open_system(options: SystemOptions) -> System:
    """The system of these options, ready to answer; close it when done.

    Raises ConfigurationError, WeightsError or IncompatibleModelsError for models that cannot be used, and
    BackendError for a server that cannot.
    """
    if options.url is None:
        from .local import LocalSystem

        return LocalSystem.load(options)
    from .server import open_server

    return open_server(options)
