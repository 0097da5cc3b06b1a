"""What a saved model may hold: plain values, without secrets, prompts or live objects; and what stands in for
a part that a saved model cannot bring back.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from asymspec_agents.backends import AnyRequest, Backend, Capabilities, ChatDelta, HTTPBackend
from asymspec_agents.default_router import attachments_for
from asymspec_agents.errors import BackendError, ConfigurationError
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy

from ._compat import ChatMessage, Model, model_class

__all__ = [
    "MissingBackend",
    "MissingModel",
    "loaded_model",
    "loaded_policy",
    "loaded_router",
    "saved_backend",
    "saved_model",
    "saved_router",
    "without_secrets",
]

logger = logging.getLogger(__name__)

_SECRET_WORDS = frozenset(
    {
        "key",
        "apikey",
        "token",
        "secret",
        "password",
        "passwd",
        "pwd",
        "auth",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "cookie",
        "cookies",
        "headers",
        "salt",
        "session",
    }
)
_PROMPT_KEYS = frozenset({"messages", "asymspec", "prompt", "documents", "extra_body"})
_SECRET_TEXT = re.compile(r"\b(?:Bearer\s+\S|sk-\w|hf_\w|gh[pousr]_\w)|://[^/\s]*@", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DROP = object()


def without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """The plain JSON values whose names and texts do not look like secrets or prompts, at every depth."""
    kept = _plain(values)
    return kept if isinstance(kept, dict) else {}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _DROP if _SECRET_TEXT.search(value) else value
    if isinstance(value, list | tuple):
        return [kept for kept in map(_plain, value) if kept is not _DROP]
    if isinstance(value, Mapping):
        items = {
            name: _plain(item) for name, item in value.items() if isinstance(name, str) and _may_keep(name)
        }
        return {name: item for name, item in items.items() if item is not _DROP}
    return _DROP


def _may_keep(name: str) -> bool:
    if name in ("tool_name_key", "tool_arguments_key"):
        return True
    words = {word.lower() for word in _WORD.findall(name)}
    return name not in _PROMPT_KEYS and not words & _SECRET_WORDS


def saved_backend(backend: Backend) -> dict[str, Any]:
    """A backend by its names: class, verifier, drafter, and a server's address. Never a key.

    Names that only a server could tell are left out where it cannot be reached: saving needs no server.
    """
    if isinstance(backend, MissingBackend):
        return dict(backend.saved)
    saved: dict[str, Any] = {"class": type(backend).__name__}
    try:
        capabilities = backend.capabilities
        saved |= {"verifier": capabilities.verifier, "drafter": capabilities.drafter}
    except BackendError:
        pass
    if isinstance(backend, HTTPBackend):
        saved["base_url"] = backend.base_url  # holds no user, password or query
    return saved


def saved_router(router: object) -> dict[str, Any]:
    """A router by its policy, and by the names of its class and compressor; nothing of a policy it lacks."""
    policy = getattr(router, "policy", None)
    return {
        "policy": asdict(policy) if isinstance(policy, ViewPolicy) else None,
        "router": {
            "class": type(router).__name__,
            "compressor": getattr(getattr(router, "compressor", None), "configuration", None),
        },
    }


def loaded_router(saved: Mapping[str, Any], backend: Backend | None = None) -> ContextRouter | None:
    """A ContextRouter with the saved policy, None where none was saved; warns where it was another router.

    It counts as the backend does, and shows images to a drafter that sees.
    """
    if saved.get("policy") is None:
        return None
    router = ContextRouter(
        loaded_policy(saved["policy"]),
        prompt_counter=None if backend is None else backend.prompt_counter,
        attachments=None if backend is None else attachments_for(backend.capabilities),
    )
    before, now = saved.get("router"), saved_router(router)["router"]
    if before not in (None, now):
        logger.warning(
            "the model was saved with another router (%s) than the one it is loaded with (%s), so its views "
            "will differ; give from_dict the router",
            before,
            now,
        )
    return router


def loaded_policy(saved: Mapping[str, Any]) -> ViewPolicy:
    """A policy from saved values, where JSON has made lists of its tuples."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()
    }
    try:
        return ViewPolicy(**values)
    except TypeError as error:
        raise ConfigurationError(f"policy of a saved model: {error}") from error


class MissingBackend(Backend):
    """Stands where a saved model's backend was, until a real one is given; answering raises."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self.saved = {"class": "Backend", "verifier": "unknown", "drafter": None, **saved}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(verifier=self.saved["verifier"], drafter=self.saved["drafter"])

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        name, address = self.saved["class"], self.saved.get("base_url")
        place = f" (at {address} when it was saved)" if address else ""
        raise ConfigurationError(
            f"backend={name} of a saved model{place} is not connected; set model.backend, or load with "
            "model=AsymSpecModel(backend)"
        )


class MissingModel(Model):  # type: ignore[misc]  # smolagents has no types
    """Stands where a saved inner model was that cannot be made again here; answering raises."""

    def __init__(self, class_name: str, model_id: str | None, reason: str) -> None:
        super().__init__(model_id=model_id)
        self.class_name = class_name
        self.reason = reason

    def generate(self, *args: Any, **kwargs: Any) -> ChatMessage:
        raise ConfigurationError(
            f"inner={self.class_name} of a saved model cannot be made again here ({self.reason}); set "
            "model.inner, or load with model=RoutedModel(inner, router)"
        )


def saved_model(model: Any) -> dict[str, Any]:
    """An inner model by its class and its own saved values, without secrets."""
    if isinstance(model, MissingModel):
        return {"class": model.class_name, "data": {"model_id": model.model_id}}
    if hasattr(model, "to_dict"):
        return {"class": type(model).__name__, "data": without_secrets(model.to_dict())}
    return {"class": type(model).__name__, "data": {"model_id": getattr(model, "model_id", None)}}


def loaded_model(saved: Mapping[str, Any]) -> Any:
    """The inner model of `saved_model`, or a MissingModel that says why it cannot be made."""
    name, data = saved["class"], saved["data"]
    found = model_class(name)
    if found is None:
        return MissingModel(name, data.get("model_id"), "its class is not registered with smolagents")
    try:
        return found.from_dict(data)
    except Exception as error:  # most often a key or a package that is not here
        return MissingModel(name, data.get("model_id"), f"{type(error).__name__}: {error}")
