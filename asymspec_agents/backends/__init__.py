"""Where requests are answered: the backend protocol, the local engine, and a scripted double for tests."""

from .base import Backend, Capabilities, ChatDelta, ChatRequest, ChatResponse, Origin, Segment, Usage, collect
from .scripted import ScriptedBackend, scripted_response

__all__ = [
    "Backend",
    "Capabilities",
    "ChatDelta",
    "ChatRequest",
    "ChatResponse",
    "Origin",
    "ScriptedBackend",
    "Segment",
    "Usage",
    "collect",
    "scripted_response",
]
