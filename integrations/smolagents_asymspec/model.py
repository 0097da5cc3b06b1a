"""AsymSpecModel: a smolagents model over any AsymSpec backend, which gets both views of every call."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from asymspec_agents.backends import Backend, ChatDelta, ChatRequest, new_request_id
from asymspec_agents.default_router import router_for
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_tools
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport, AsymSpecRequest
from asymspec_agents.recording import NULL_RECORDER, Recorder, for_request
from asymspec_agents.router import RoutedContext
from asymspec_agents.views import RateControl

from ._compat import ChatMessage, ChatMessageStreamDelta, Model
from .adaptive import AdaptiveRates, opening_key
from .answer import chat_message, stream_deltas
from .convert import to_wire
from .images import ConversationImages, ImageEncoder
from .merge import merge_views
from .request import answer_limit, check_parameters, request_parameters, stop_strings
from .routing import FailOpenRouter, Router
from .saved import MissingBackend, loaded_router, saved_backend, saved_router, without_secrets
from .tool_calls import with_parsed_tool_calls

__all__ = ["AsymSpecModel"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """A request, and the conversation it belongs to where ratios adapt."""

    request: ChatRequest
    conversation: str


class AsymSpecModel(Model):  # type: ignore[misc]  # smolagents has no types
    """A smolagents model whose verifier reads the compressed view and whose drafter reads everything.

    `router` makes the views (default: a ContextRouter within the backend's own limits), `options` say how to
    decode. `rate` lets the compression ratio of each conversation's next turns follow what its answers
    report (off by default; the router's policy must have its `ratio`).
    Further keywords are parameters of every request (`temperature`, `tool_choice`, `chat_template_kwargs`,
    `cache_salt`, …) and outrank those of a call, as in every smolagents model. `model_id` defaults to the
    verifier's name. Answers carry the backend's ChatResponse as `raw`.

    Invariants: a failing router never ends a run, the full context is sent then; token usage is reported
    once; an answer never holds a stop string.
    Raises ContextOverflowError, and BackendError where the backend failed.
    """

    def __init__(
        self,
        backend: Backend,
        router: Router | None = None,
        *,
        model_id: str | None = None,
        options: AsymSpecOptions | None = None,
        max_tokens: int | None = None,
        recorder: Recorder = NULL_RECORDER,
        rate: RateControl | None = None,
        flatten_messages_as_text: bool = False,
        tool_name_key: str = "name",
        tool_arguments_key: str = "arguments",
        **kwargs: Any,
    ) -> None:
        if not isinstance(backend, Backend):
            raise ConfigurationError(f"backend must be a Backend, not {type(backend).__name__}")
        if router is not None and not callable(getattr(router, "route", None)):
            raise ConfigurationError(f"router must be a ContextRouter, not {type(router).__name__}")
        if options is not None and not isinstance(options, AsymSpecOptions):
            raise ConfigurationError(f"options must be AsymSpecOptions, not {type(options).__name__}")
        if max_tokens is not None:
            kwargs["max_tokens"] = max_tokens
        check_parameters(kwargs)
        super().__init__(
            flatten_messages_as_text,
            tool_name_key,
            tool_arguments_key,
            model_id if model_id is not None else backend.capabilities.verifier,
            **kwargs,
        )
        self.backend = backend
        self.options = options
        self.routing = FailOpenRouter(
            router if router is not None else router_for(backend, answer_limit(self.kwargs), recorder),
            recorder,
        )
        self.rates = AdaptiveRates(rate, recorder) if rate is not None else None
        self._check_rate()
        self._images = ImageEncoder()
        self._misses_report = False

    @property
    def supports_stop_parameter(self) -> bool:
        """True: every backend honours stop strings, whatever the model's name."""
        return True

    def generate(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """The whole answer."""
        call = self._call(messages, stop_sequences, response_format, tools_to_call_from, kwargs)
        request = call.request
        response = self.backend.generate(request)
        self._read_report(call, response.report)
        return chat_message(response, (*request.stop, *stop_strings(stop_sequences)))

    def generate_stream(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Generator[ChatMessageStreamDelta]:
        """The answer step by step; the last delta has the token usage. Closing it aborts the request."""
        call = self._call(messages, stop_sequences, response_format, tools_to_call_from, kwargs)
        request = call.request
        deltas = self.backend.stream(request)
        try:
            yield from stream_deltas(
                self._checked(call, deltas), (*request.stop, *stop_strings(stop_sequences))
            )
        finally:
            if hasattr(deltas, "close"):
                deltas.close()

    def parse_tool_calls(self, message: ChatMessage) -> ChatMessage:
        """The message with the tool calls of its text. Raises ValueError, which an agent shows the model."""
        return with_parsed_tool_calls(message, self.tool_name_key, self.tool_arguments_key)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for saving: no secrets, no context, the backend by its names only."""
        return {
            **without_secrets(self.kwargs),
            "model_id": self.model_id,
            "backend": saved_backend(self.backend),
            **saved_router(self.routing.router),
            "options": self.options.model_dump(exclude_unset=True) if self.options is not None else None,
            "rate": asdict(self.rates.control) if self.rates is not None else None,
            "tool_name_key": self.tool_name_key,
            "tool_arguments_key": self.tool_arguments_key,
        }

    @classmethod
    def from_dict(
        cls,
        model_dictionary: Mapping[str, Any],
        *,
        backend: Backend | None = None,
        router: Router | None = None,
    ) -> AsymSpecModel:
        """The model of `to_dict`. Without a backend it loads too, and answers once `.backend` is set.

        It never connects to a server by itself: a saved file must not decide where prompts are sent.
        """
        fields = dict(model_dictionary)
        saved = fields.pop("backend", None) or {}
        options = fields.pop("options", None)
        rate = fields.pop("rate", None)
        saved_as = {name: fields.pop(name, None) for name in ("policy", "router")}
        if router is None:
            router = loaded_router(saved_as, backend)
        return cls(
            backend if backend is not None else MissingBackend(saved),
            router,
            options=AsymSpecOptions.of(**options) if options is not None else None,
            rate=RateControl(**rate) if rate is not None else None,
            **fields,
        )

    def _call(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        stop_sequences: list[str] | None,
        response_format: Mapping[str, Any] | None,
        tools_to_call_from: Sequence[Any] | None,
        called: Mapping[str, Any],
    ) -> _Call:
        parameters = request_parameters(
            self.kwargs,
            called,
            stop_sequences=stop_sequences,
            response_format=response_format,
            tools_to_call_from=tools_to_call_from,
        )
        full = to_wire(messages, ConversationImages(self._images))
        tools = parameters.pop("tools", [])
        conversation = opening_key(full) if self.rates is not None else ""
        rate = self.rates.state(conversation) if self.rates is not None else None
        parameters.setdefault("request_id", new_request_id())
        with for_request(parameters["request_id"]):
            routed = self.routing.route(full, tools, tools_to_call_from or (), rate)
        if routed is None:
            sent, tool_specs = merge_views(full, ()).full, parse_tools(tools)
            asymspec = AsymSpecRequest(
                **(self.options.model_dump(exclude_unset=True) if self.options is not None else {}), edits=()
            )
        else:
            if self.rates is not None:
                self.rates.saw(conversation, routed.report.num_turns)
            routed = _merged(routed)
            sent, tool_specs, asymspec = routed.full, routed.tools, routed.request(self.options)
        request = ChatRequest(messages=sent, tools=tool_specs, asymspec=asymspec, **parameters)
        return _Call(request, conversation)

    def _check_rate(self) -> None:
        policy = getattr(self.routing.router, "policy", None)
        if self.rates is not None and policy is not None and policy.ratio != self.rates.control.ratio:
            raise ConfigurationError(
                f"rate.ratio={self.rates.control.ratio}: must be the policy's own, ratio={policy.ratio}"
            )

    def _checked(self, call: _Call, deltas: Iterator[ChatDelta]) -> Iterator[ChatDelta]:
        delta = ChatDelta()
        for delta in deltas:
            yield delta
        self._read_report(call, delta.report)

    def _read_report(self, call: _Call, report: AsymSpecReport | None) -> None:
        if self.rates is not None:
            self.rates.read(call.conversation, report)
        if report is None and not self._misses_report:
            self._misses_report = True
            logger.warning(
                "the answer to request %s has no AsymSpec report: %s answered from the full context, without "
                "AsymSpec (logged once)",
                call.request.request_id,
                type(self.backend).__name__,
            )


def _merged(routed: RoutedContext) -> RoutedContext:
    """Both views with neighbours of one role merged, as edits or as whole messages."""
    views = merge_views(routed.full, routed.edits)
    if routed.messages is not None:
        whole = merge_views(routed.messages, ()).full
        return replace(routed, full=views.full, edits=(), messages=whole)
    return replace(routed, full=views.full, edits=views.edits)
