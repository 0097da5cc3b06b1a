"""What a server is, asked before anything runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from asymspec_agents.backends.connection_options import ConnectionOptions
from asymspec_agents.errors import (
    BackendError,
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
)
from asymspec_agents.wire.handshake import PATH, ServerInfo

__all__ = ["ServerFacts", "probe"]

PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server: its address, its handshake (None: no AsymSpec), its models by name, its version."""

    url: str
    asymspec: ServerInfo | None
    models: tuple[str, ...]
    version: str | None

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "an OpenAI-compatible server" if self.asymspec is None else "an AsymSpec server"

    def checked(self, field: str, name: str) -> str:
        """The model's name. Raises ConfigurationError where the server says that it serves others only."""
        if self.models and name not in self.models:
            served = ", ".join(self.models)
            raise ConfigurationError(f"{field}={name!r} is not served at {self.url}; models: {served}")
        return name

    def only_model(self, who: str, option: str) -> str:
        """The only model there is. Raises ConfigurationError where there are several, or none by name."""
        if len(self.models) == 1:
            return self.models[0]
        served = ", ".join(self.models) or "none by name"
        raise ConfigurationError(f"name {who} with {option}; {self.url} serves {served}")


def probe(options: ConnectionOptions) -> ServerFacts:
    """What the server at this address says of itself.

    Raises ConnectionFailedError where nobody answers, ServerError where the key is refused or the server
    fails, NotAsymSpecError for another version of the protocol, BackendError for something else entirely.
    """
    headers = dict(options.headers)
    if options.api_key is not None:
        headers.setdefault("Authorization", f"Bearer {options.api_key}")
    with httpx.Client(base_url=options.base_url, headers=headers, timeout=PROBE_TIMEOUT_S) as client:
        handshake = _get(client, PATH)
        info = None if handshake is None else ServerInfo.read(handshake)
        if info is not None and not info.modes:
            info = None
        listed = _get(client, "/v1/models")
        if info is None and listed is None:
            raise BackendError(
                f"{options.base_url} is no server for this: it has neither {PATH} nor /v1/models"
            )
        try:
            version = _get(client, "/version")
        except ServerError:  # it is good to know, no more
            version = None
    return ServerFacts(options.base_url, info, _names(listed), _text(version, "version"))


def _get(client: httpx.Client, path: str) -> Mapping[str, Any] | None:
    """The JSON object there; None where there is none."""
    try:
        answer = client.get(path)
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ConnectionFailedError(f"cannot reach {client.base_url}: {why}") from error
    if answer.status_code in (404, 405, 501):
        return None
    if answer.status_code >= 400:
        raise ServerError(
            f"{client.base_url} answered {path} with status {answer.status_code}", answer.status_code
        )
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, Mapping) else None


def _names(listed: Mapping[str, Any] | None) -> tuple[str, ...]:
    models = None if listed is None else listed.get("data")
    if not isinstance(models, list):
        return ()
    return tuple(
        model["id"] for model in models if isinstance(model, Mapping) and isinstance(model.get("id"), str)
    )


def _text(answer: Mapping[str, Any] | None, name: str) -> str | None:
    value = None if answer is None else answer.get(name)
    return value if isinstance(value, str) else None
