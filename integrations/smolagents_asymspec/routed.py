"""RoutedModel: any smolagents model, which reads the compressed view, or passes both views to its server."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.default_router import router_for
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecOptions, derive_edits
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.router import ContextRouter, RoutedContext

from ._compat import ChatMessage, ChatMessageStreamDelta, Model, tool_schema
from .both_views import BothViews
from .convert import edit_chat_messages, to_wire
from .images import ConversationImages, ImageEncoder, readable
from .inner_tools import signature_copies
from .request import answer_limit
from .routing import FailOpenRouter, Router
from .saved import MissingModel, loaded_model, loaded_router, saved_model, saved_router
from .whole_views import compressed_chat_messages

__all__ = ["RoutedModel"]


@dataclass(frozen=True, slots=True)
class _InnerCall:
    """Which model is called, and what it is given in place of the caller's messages and tools."""

    model: Any
    messages: list[ChatMessage | Mapping[str, Any]]
    tools: Sequence[Any] | None


class _OfInner:
    """An attribute that smolagents reads on every model: here the inner model's own, or a default."""

    def __init__(self, default: Any) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else getattr(instance.inner, self._name, self._default)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.inner, self._name, value)


class RoutedModel(Model):  # type: ignore[misc]  # smolagents has no types
    """Wraps a smolagents model, or anything with its `generate`, and gives it the compressed view.

    Texts are replaced, and pictures that cannot be read; images and everything else are handed on as they
    are, tools as copies that show their signatures only (agents run and check the real ones). Every other
    attribute is the inner model's, also `generate_stream`: the wrapper can stream exactly if the inner model
    can. A failing router never ends a run: the inner model gets the full context then. Raises
    ContextOverflowError where the router says so.

    With `options`, `inner` must be an OpenAIModel on an AsymSpec server: it sends the full context and, in
    `extra_body`, the compressed view beside it; an unset temperature is sent as 0. The default router keeps
    both views within the server's limits. Raises NotAsymSpecError where the server does not speak AsymSpec
    or answers without its report, which whole answers have in `message.raw.model_extra["asymspec"]`.
    """

    model_id: Any = _OfInner(None)
    flatten_messages_as_text: Any = _OfInner(False)
    tool_name_key: Any = _OfInner("name")
    tool_arguments_key: Any = _OfInner("arguments")
    supports_stop_parameter: Any = _OfInner(True)

    def __init__(
        self,
        inner: Any,
        router: Router | None = None,
        *,
        options: AsymSpecOptions | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        # Not Model.__init__: what it would set is the inner model's, see the properties below.
        self.options = options
        self._images = ImageEncoder()
        self.inner = inner
        if router is None:
            router = self._default_router(recorder)
        self.routing = FailOpenRouter(router, recorder)

    @property
    def inner(self) -> Any:
        """The wrapped model; another one may be set."""
        return self._inner

    @inner.setter
    def inner(self, model: Any) -> None:
        if not callable(getattr(model, "generate", None)):
            raise ConfigurationError(f"inner={type(model).__name__} has no generate method")
        self._both_views: BothViews | None = None
        if self.options is not None and not isinstance(model, MissingModel):
            self._both_views = BothViews(model, self.options)
        self._inner = model

    def _default_router(self, recorder: Recorder) -> ContextRouter:
        if self._both_views is None:
            return ContextRouter(recorder=recorder)
        self._both_views.check_server()
        return router_for(self._both_views.backend, answer_limit(self.inner.kwargs), recorder)

    def generate(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """The inner model's answer."""
        call = self._inner_call(messages, tools_to_call_from, kwargs)
        named = _given(stop_sequences, response_format, call.tools)
        answer: ChatMessage = call.model.generate(call.messages, **named, **kwargs)
        return answer

    def _generate_stream(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Generator[ChatMessageStreamDelta]:
        """The inner model's answer, step by step."""
        call = self._inner_call(messages, tools_to_call_from, kwargs)
        named = _given(stop_sequences, response_format, call.tools)
        yield from call.model.generate_stream(call.messages, **named, **kwargs)

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_inner")
        if inner is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = getattr(inner, name)
        return self._generate_stream if name == "generate_stream" else value

    def _inner_call(
        self,
        messages: Sequence[ChatMessage | Mapping[str, Any]],
        tools: Sequence[Any] | None,
        called: Mapping[str, Any],
    ) -> _InnerCall:
        given, both = readable(messages), self._both_views
        if both is None:
            call = self.routing.guarded(lambda: self._compressed_call(given, tools))
            return call if call is not None else _InnerCall(self.inner, given, tools)
        both.check_server()
        call = self.routing.guarded(lambda: self._both_views_call(both, given, tools, called))
        return call if call is not None else _InnerCall(both.model(given, None, called), given, tools)

    def _compressed_call(
        self, messages: list[ChatMessage | Mapping[str, Any]], tools: Sequence[Any] | None
    ) -> _InnerCall | None:
        """The compressed view in place of the context, or None where it cannot be made."""
        wire = to_wire(messages, None)
        routed = self._routed(wire, tools)
        if routed is None:
            return None
        shown = tools if tools is None else signature_copies(tools, routed.compressed_tools)
        return _InnerCall(self.inner, compressed_chat_messages(messages, wire, routed), shown)

    def _both_views_call(
        self,
        both: BothViews,
        messages: list[ChatMessage | Mapping[str, Any]],
        tools: Sequence[Any] | None,
        called: Mapping[str, Any],
    ) -> _InnerCall | None:
        """The full view as it is and a model that sends the compressed one too, or None."""
        wire = to_wire(messages, ConversationImages(self._images, repeats=True))
        routed = self._routed(wire, tools)
        if routed is None:
            return None
        full = edit_chat_messages(messages, derive_edits(wire, routed.full))
        compressed = compressed_chat_messages(messages, wire, routed)
        return _InnerCall(both.model(compressed, routed, called), full, tools)

    def _routed(self, wire: Sequence[Message], tools: Sequence[Any] | None) -> RoutedContext | None:
        return self.routing.route(wire, [tool_schema(tool) for tool in tools or ()], tools or ())

    def parse_tool_calls(self, message: ChatMessage) -> ChatMessage:
        """The message with the tool calls its text holds, as the inner model reads them."""
        if hasattr(self.inner, "parse_tool_calls"):
            parsed: ChatMessage = self.inner.parse_tool_calls(message)
            return parsed
        return super().parse_tool_calls(message)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for saving: no secrets, no context, the inner model and the policy by their values."""
        return {
            "inner": saved_model(self.inner),
            **saved_router(self.routing.router),
            "options": self.options.model_dump(exclude_unset=True) if self.options is not None else None,
        }

    @classmethod
    def from_dict(
        cls, model_dictionary: Mapping[str, Any], *, inner: Any = None, router: Router | None = None
    ) -> RoutedModel:
        """The model of `to_dict`; an inner model that cannot be made again has to be given, or set later."""
        if router is None:
            router = loaded_router(model_dictionary)
        options = model_dictionary.get("options")
        return cls(
            inner if inner is not None else loaded_model(model_dictionary["inner"]),
            router,
            options=AsymSpecOptions.of(**options) if options is not None else None,
        )


def _given(
    stop_sequences: list[str] | None, response_format: Mapping[str, Any] | None, tools: Sequence[Any] | None
) -> dict[str, Any]:
    """The named arguments that were given: a model that never heard of the others need not know them."""
    named = {
        "stop_sequences": stop_sequences,
        "response_format": response_format,
        "tools_to_call_from": tools,
    }
    return {name: value for name, value in named.items() if value is not None}
