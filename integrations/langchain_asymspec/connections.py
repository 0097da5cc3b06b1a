"""Servers named by their address: models that name the same one share one connection pool.

LangChain makes a model anew for every call that configures one of its fields; with a pool of its own, each
would open a connection and ask the server what it is.
"""

from __future__ import annotations

import threading
import weakref

from asymspec_agents.backends import HTTPBackend

__all__ = ["server_at"]

_Key = tuple[str, str | None, float, int]

_servers: weakref.WeakValueDictionary[_Key, HTTPBackend] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def server_at(base_url: str, api_key: str | None, timeout_s: float, max_retries: int) -> HTTPBackend:
    """The backend at this address, the same one as long as somebody holds it."""
    key = (base_url, api_key, timeout_s, max_retries)
    with _lock:
        backend = _servers.get(key)
        if backend is None:
            backend = HTTPBackend(base_url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries)
            _servers[key] = backend
        return backend
