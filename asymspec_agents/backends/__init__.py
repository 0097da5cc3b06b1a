"""Where requests are answered: the backend protocol, the local engine, and a scripted double for tests."""

from .answer import ChatDelta, ChatResponse, FinishReason, Origin, Segment, Usage, collect
from .base import Backend, Capabilities, PromptCounter
from .http import HTTPBackend
from .request import AnyRequest, ChatRequest, CompletionRequest, new_request_id
from .scripted import ScriptedBackend, scripted_response

__all__ = [
    "AnyRequest",
    "Backend",
    "Capabilities",
    "ChatDelta",
    "ChatRequest",
    "ChatResponse",
    "CompletionRequest",
    "FinishReason",
    "HTTPBackend",
    "Origin",
    "PromptCounter",
    "ScriptedBackend",
    "Segment",
    "Usage",
    "collect",
    "new_request_id",
    "scripted_response",
]
