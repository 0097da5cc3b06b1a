"""Context-asymmetric speculative decoding for agents: both views of every call, and a backend for them."""

from ._version import __version__
from .backends.answer import ChatResponse
from .backends.base import Backend
from .backends.http import HTTPBackend
from .backends.local import LocalBackend
from .backends.request import ChatRequest, CompletionRequest
from .backends.scripted import ScriptedBackend
from .errors import AsymSpecError, ContextOverflowError
from .messages import Message, ToolSpec
from .protocol import AsymSpecOptions, AsymSpecReport, AsymSpecRequest
from .router import ContextRouter, RoutedContext
from .views import ViewPolicy

__all__ = [
    "AsymSpecError",
    "AsymSpecOptions",
    "AsymSpecReport",
    "AsymSpecRequest",
    "Backend",
    "ChatRequest",
    "ChatResponse",
    "CompletionRequest",
    "ContextOverflowError",
    "ContextRouter",
    "HTTPBackend",
    "LocalBackend",
    "Message",
    "RoutedContext",
    "ScriptedBackend",
    "ToolSpec",
    "ViewPolicy",
    "__version__",
]
