"""What a ChatAsymSpec is made of: its fields, what is derived from them, and how it is copied and saved."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    SkipValidation,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from asymspec_agents import __version__
from asymspec_agents.backends import Backend, Capabilities, HTTPBackend
from asymspec_agents.config import from_env
from asymspec_agents.default_router import router_for
from asymspec_agents.errors import AsymSpecError, BackendError, ConfigurationError
from asymspec_agents.fail_open import FailOpen
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.router import RoutedContext
from asymspec_agents.store import content_hash
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.views.prompt_size import prompt_tokens

from ._compat import LangSmithParams, ModelProfile
from .answer import PROVIDER
from .connections import server_at
from .convert import wire_messages, wire_tools
from .profile import profile_of
from .request import options_of, parameters_of

__all__ = ["ModelSettings", "Router"]

logger = logging.getLogger(__name__)

TIMEOUT_S = 600.0
MAX_RETRIES = 3


class Router(Protocol):
    """What is needed of a ContextRouter; where it has `aroute` as well, asynchronous calls await that."""

    def route(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
    ) -> RoutedContext: ...


class ModelSettings(BaseChatModel):
    """The settings of a chat model, and all of it that is not answering; see ChatAsymSpec."""

    # An error that showed what it was given would show keys.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    # What a connection is made of stays as it is: a change would not reach what was connected.
    backend: Backend | None = Field(default=None, frozen=True)
    base_url: str | None = Field(default=None, frozen=True)
    api_key: SecretStr | None = Field(default=None, frozen=True)
    timeout: float | None = Field(default=None, frozen=True)
    max_retries: int | None = Field(default=None, frozen=True)
    router: Annotated[Router | None, SkipValidation] = Field(default=None, repr=False)
    model: str | None = None
    asymspec: AsymSpecOptions | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    streaming: bool | None = None
    """True: `invoke` streams as well, for callbacks that want every token; False: nothing streams."""
    chat_template_kwargs: dict[str, Any] | None = None
    cache_salt: str | None = Field(default=None, repr=False)
    session_id: str | None = None
    extra_body: dict[str, Any] | None = None
    recorder: Annotated[Recorder, SkipValidation] = Field(default=NULL_RECORDER, repr=False, exclude=True)

    _router_token: str = PrivateAttr(default_factory=lambda: uuid.uuid4().hex)
    # The others are derived from the fields, by _connect.
    _backend: Backend = PrivateAttr()
    _capabilities: Capabilities | None = PrivateAttr()
    _default_router: Router | None = PrivateAttr()
    _fail_open: FailOpen = PrivateAttr()
    _misses_report: bool = PrivateAttr()

    @field_validator("asymspec", mode="before")
    @classmethod
    def _read_options(cls, given: object) -> AsymSpecOptions | None:
        return options_of(given)

    @model_validator(mode="after")
    def _set_up(self) -> Self:
        of_server = {name: getattr(self, name) for name in ("base_url", "api_key", "timeout", "max_retries")}
        if self.backend is not None:
            given = [name for name, value in of_server.items() if value is not None]
            if self.base_url is not None:
                raise ConfigurationError("backend and base_url are both given; one of them is needed")
            if given:
                raise ConfigurationError(
                    f"{given[0]} belongs to a base_url; the backend has its own settings"
                )
        elif self.base_url is None:
            raise ConfigurationError("neither backend nor base_url is given; one of them is needed")
        elif self.api_key is None and (key := from_env().api_key) is not None:
            self.__dict__["api_key"] = SecretStr(key)  # frozen from here on
        if self.router is not None and not callable(getattr(self.router, "route", None)):
            raise ConfigurationError(f"router must be a ContextRouter, not {type(self.router).__name__}")
        parameters_of(self._request_parameters(), {})
        if self.profile is None:
            del self.__dict__["profile"]  # see __getattr__
        self._connect()
        return self

    @model_validator(mode="after")
    def _set_asymspec_version(self) -> Self:
        self._add_version("asymspec-agents", __version__)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A profile that was not given is told when it is asked for: a server's is not known before."""
            return self._told_profile() if name == "profile" else super().__getattr__(name)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A shallow copy: backend and router are shared, as they serve any number of models."""
        return self.model_copy()

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "__pydantic_private__": {"_router_token": self._router_token}}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state)
        self._connect()

    def with_router(self, router: Router) -> Self:
        """A copy that differs in its router only; backend and connections are shared."""
        other = self.model_copy(update={"router": router})
        other._router_token = uuid.uuid4().hex
        return other

    def get_num_tokens(self, text: str) -> int:
        """Tokens of a text alone, by estimate unless the model has `custom_get_token_ids`."""
        if self.custom_get_token_ids is not None:
            return super().get_num_tokens(text)
        return EstimateCounter().count(text)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Tokens of the full view's prompt, tools and template included; by estimate if nobody can count."""
        wire, specs = wire_messages(messages).messages, wire_tools(tools or ())
        try:
            counter = self._backend.prompt_counter
            if counter is not None:
                return counter(wire, specs)
        except AsymSpecError as error:
            logger.debug("the prompt's tokens are estimated, as the backend did not count them: %r", error)
        return prompt_tokens(wire, specs, self.get_num_tokens)

    @property
    def _llm_type(self) -> str:
        return "asymspec-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything an answer depends on: two models share cached answers where this is equal."""
        options = self.asymspec.model_dump(exclude_unset=True) if self.asymspec is not None else None
        params = {
            **self._request_parameters(),
            "model": self.model,
            "backend": _backend_name(self._backend),
            "asymspec": options,
            "router": self._router_name(),
        }
        params["stop_sequences"] = params.pop("stop")  # a call's `stop` has its own place
        del params["session_id"]
        if self.cache_salt is not None:  # goes into traces
            params["cache_salt"] = content_hash(self.cache_salt)
        return {name: value for name, value in params.items() if value is not None}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        own_stop = [self.stop] if isinstance(self.stop, str) else self.stop
        params = super()._get_ls_params(stop=stop if stop is not None else own_stop, **kwargs)
        params["ls_provider"] = PROVIDER
        known = self._capabilities.verifier if self._capabilities is not None else PROVIDER
        params.setdefault("ls_model_name", known)
        return params

    def _connect(self) -> None:
        """Sets what is derived from the fields; asks no server anything."""
        self._fail_open = FailOpen(self.recorder)
        self._default_router, self._misses_report = None, False
        if self.backend is not None:
            self._backend = self.backend
        elif self.base_url is not None:
            key = self.api_key.get_secret_value() if self.api_key is not None else None
            timeout_s = TIMEOUT_S if self.timeout is None else self.timeout
            retries = MAX_RETRIES if self.max_retries is None else self.max_retries
            self._backend = server_at(self.base_url, key, timeout_s, retries)
        is_here = not isinstance(self._backend, HTTPBackend)
        self._capabilities = self._backend.capabilities if is_here else None

    def _known(self) -> Capabilities:
        """What the backend can do; may ask a server, once."""
        if self._capabilities is None:
            self._capabilities = self._backend.capabilities
        return self._capabilities

    def _routing(self) -> Router:
        """The router; a default one needs the backend's limits, for which a server may be asked, once."""
        if self.router is not None:
            return self.router
        if self._default_router is None:
            self._default_router = router_for(self._backend, self.max_tokens, self.recorder)
        return self._default_router

    def _answering(self, model: str | None) -> tuple[Backend, str]:
        """The backend for a model (None: its own), and the model's name; may ask a server, once."""
        name = model or self.model
        if name is None:
            return self._backend, self._known().verifier
        return self._backend.with_model(name), name

    def _request_parameters(self) -> dict[str, Any]:
        names = ("max_tokens", "temperature", "top_p", "seed", "stop", "chat_template_kwargs", "cache_salt")
        return {name: getattr(self, name) for name in (*names, "session_id", "extra_body")}

    def _check_report(self, report: AsymSpecReport | None) -> None:
        if report is None and not self._misses_report:
            self._misses_report = True
            logger.warning(
                "an answer has no AsymSpec report: %s answered from the full context, without AsymSpec "
                "(logged once)",
                type(self._backend).__name__,
            )

    def _told_profile(self) -> ModelProfile:
        """The profile as far as it is known; a server is asked, but not while an event loop would wait."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            try:
                return profile_of(self._known(), self.max_tokens)
            except BackendError as error:
                logger.debug("the model's limits are not known: %r", error)
        return profile_of(self._capabilities, self.max_tokens)

    def _router_name(self) -> str:
        """Tells routers apart that may make other views; one that cannot be told is like no other."""
        if self.router is None:
            return "default"
        configuration = getattr(self.router, "configuration", None)
        own = configuration if isinstance(configuration, str) else self._router_token
        return f"{type(self.router).__name__}:{own}"


def _backend_name(backend: Backend) -> str:
    """Tells backends apart that may give other answers; without a server's key."""
    if isinstance(backend, HTTPBackend):
        return repr(backend)
    capabilities = backend.capabilities
    arm = getattr(backend, "arm", None)
    return f"{type(backend).__name__}({capabilities.verifier}, {capabilities.drafter}, {arm})"
