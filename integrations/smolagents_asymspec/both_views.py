"""Both views of a call through an OpenAIModel that asks an AsymSpec server.

The inner model sends the full context as ever. What it hands its client passes here, in the form in which it
goes out, and gets the compressed view beside it; the answer must bring AsymSpec's report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from asymspec_agents.backends import HTTPBackend
from asymspec_agents.errors import ConfigurationError, MessageError, NotAsymSpecError
from asymspec_agents.messages import Message, parse_messages
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest, derive_edits
from asymspec_agents.router import RoutedContext

from ._compat import OpenAIModel, openai_messages, with_client

__all__ = ["BothViews"]


class BothViews:
    """An OpenAIModel and the AsymSpec server behind it; `backend` is the same server as a backend.

    Raises ConfigurationError for another kind of model, or one that sends an `asymspec` object of its own.
    """

    def __init__(self, inner: Any, options: AsymSpecOptions) -> None:
        if not isinstance(options, AsymSpecOptions):
            raise ConfigurationError(f"options must be AsymSpecOptions, not {type(options).__name__}")
        if not isinstance(inner, OpenAIModel):
            raise ConfigurationError(
                f"options with inner={type(inner).__name__}: only an OpenAIModel takes both views to a "
                "server; leave options out to send the compressed view alone, or use "
                "AsymSpecModel(HTTPBackend(url), options=…)"
            )
        _check_extra_body(inner.kwargs.get("extra_body"))
        self._inner = inner
        self._options = options
        self.backend = _backend(inner)

    def check_server(self) -> None:
        """Raises NotAsymSpecError unless the server speaks AsymSpec; asks it at the first call."""
        try:
            _ = self.backend.capabilities
        except NotAsymSpecError as error:
            raise NotAsymSpecError(
                f"{self.backend.base_url} cannot take both views: {error.__cause__ or 'it names no modes'}. "
                "Start a server with `asymspec serve`, or leave options out to send the compressed view alone"
            ) from error

    def model(
        self, compressed: Sequence[Any], routed: RoutedContext | None, called: Mapping[str, Any]
    ) -> OpenAIModel:
        """The inner model for one call: given the full context, it also sends these messages as compressed.

        `routed` has the call's tools in both views, None where they are the same. `called` are the call's
        further keywords, which may change how the inner model prepares messages.
        """

        def described(body: Mapping[str, Any]) -> AsymSpecRequest:
            prepared = openai_messages(self._inner, compressed, called)
            view = _view(_parsed(body["messages"]), _parsed(prepared))
            if routed is not None and _has_other_signatures(routed, body.get("tools")):
                view["tools"] = routed.compressed_tools
            fields = set(AsymSpecOptions.model_fields)
            return AsymSpecRequest(**self._options.model_dump(exclude_unset=True, include=fields), **view)

        return with_client(self._inner, _Client(self._inner.client, described, self.backend.base_url))


class _Client:
    """The inner model's client, for one call; all but chat completions is the client's own."""

    def __init__(
        self, client: Any, describe: Callable[[Mapping[str, Any]], AsymSpecRequest], server: str
    ) -> None:
        self._client = client
        self._describe = describe
        self._server = server
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _create(self, **body: Any) -> Any:
        given = body.get("extra_body") or {}
        _check_extra_body(given)
        if body.get("temperature") is None:
            body["temperature"] = 0  # a server may sample when it is left out
        body["extra_body"] = {**given, "asymspec": self._describe(body).wire()}
        answer = self._client.chat.completions.create(**body)
        if body.get("stream"):
            return self._reported(answer)
        if not _has_report(answer):
            raise self._unreported()
        return answer

    def _reported(self, chunks: Any) -> Iterator[Any]:
        is_reported = False
        try:
            for chunk in chunks:
                is_reported = is_reported or _has_report(chunk)
                yield chunk
        finally:
            chunks.close()
        if not is_reported:
            raise self._unreported()

    def _unreported(self) -> NotAsymSpecError:
        return NotAsymSpecError(
            f"{self._server} answered an AsymSpec request without a report, so without the method"
        )


def _view(full: Sequence[Message], compressed: Sequence[Message]) -> dict[str, Any]:
    """The compressed view as edits, or whole: an image that became text is merged with its neighbours."""
    try:
        return {"edits": derive_edits(full, compressed)}
    except MessageError:
        return {"messages": tuple(compressed)}


def _has_other_signatures(routed: RoutedContext, sent_tools: Any) -> bool:
    """Whether the tools that are sent, and not a keyword `tools` in their place, have a shorter form."""
    return routed.compressed_tools != routed.tools and sent_tools == [tool.wire() for tool in routed.tools]


def _parsed(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return parse_messages(
        [{**message, "role": getattr(message["role"], "value", message["role"])} for message in messages]
    )


def _has_report(answer: Any) -> bool:
    return (getattr(answer, "model_extra", None) or {}).get("asymspec") is not None


def _check_extra_body(extra_body: Any) -> None:
    if isinstance(extra_body, Mapping) and "asymspec" in extra_body:
        raise ConfigurationError("extra_body.asymspec is what options say and the router makes; leave it out")


def _backend(inner: OpenAIModel) -> HTTPBackend:
    """The same server with the same key, for the handshake and for counting tokens."""
    client = inner.client
    url, key = getattr(client, "base_url", None), getattr(client, "api_key", None)
    if url is None:
        raise ConfigurationError("inner.client has no base_url; options need a client of the openai package")
    return HTTPBackend(
        str(url),
        api_key=key if isinstance(key, str) and key else None,
        max_retries=client.max_retries,
        headers=inner.client_kwargs.get("default_headers"),
    )
