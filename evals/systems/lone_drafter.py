"""The drafter by itself, as a server answers for it: the system's own server, or another one."""

from __future__ import annotations

from dataclasses import dataclass

from asymspec_agents.backends import HTTPBackend
from asymspec_agents.backends.connection_options import ConnectionOptions
from asymspec_agents.errors import ConfigurationError

from .options import SystemOptions
from .probing import ServerFacts, probe

__all__ = ["LoneDrafter"]


@dataclass(frozen=True, slots=True)
class LoneDrafter:
    """A backend that asks for the drafter in plain requests.

    `speaks`: its server is an AsymSpec one, so it takes a cache salt and streams with usage. `server` and
    `server_version` are what it says of itself, None where it does not.
    """

    model: str
    backend: HTTPBackend
    speaks: bool
    server: str | None
    server_version: str | None

    @classmethod
    def of(cls, facts: ServerFacts, backend: HTTPBackend, model: str) -> LoneDrafter:
        """The drafter of that name at a server; `backend` asks for it."""
        info = facts.asymspec
        server = None if info is None else info.server
        return cls(model, backend.with_arm("ceiling"), info is not None, server, facts.version)

    @classmethod
    def at(cls, options: SystemOptions) -> LoneDrafter:
        """The drafter at `options.drafter_url`, which is asked what it is; close its backend when done.

        Raises what `probe` does, and ConfigurationError for a model that is not served there, or not named
        where several are.
        """
        url = options.drafter_url or ""
        try:
            connection = ConnectionOptions(
                base_url=url, api_key=options.drafter_api_key, timeout_s=options.timeout_s
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"drafter_url: {error}") from error
        facts = probe(connection)
        named = options.drafter_model
        if named is None:
            model = facts.only_model("the drafter", "--drafter-model")
        else:
            model = facts.checked("drafter_model", named)
        backend = HTTPBackend(
            url,
            api_key=options.drafter_api_key,
            model=model,
            on_missing_asymspec="error" if facts.asymspec is not None else "warn",
            timeout_s=options.timeout_s,
        )
        return cls.of(facts, backend, model)
