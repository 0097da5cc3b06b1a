"""Requests as arms want them: whose options they carry, and which view takes which place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asymspec_agents.backends import ChatRequest
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest

__all__ = ["Put", "by_options", "compressed_only", "identical"]

Put = Callable[[ChatRequest], ChatRequest]


def by_options(options: AsymSpecOptions) -> Put:
    """Both views, decoded by these options; a request without views gets its full one twice."""

    def put(request: ChatRequest) -> ChatRequest:
        asymspec = request.asymspec
        view: dict[str, Any] = {"edits": ()}
        if asymspec is not None:
            view = {"edits": asymspec.edits, "messages": asymspec.messages, "tools": asymspec.tools}
        return _with(request, options, **{name: value for name, value in view.items() if value is not None})

    return put


def identical(options: AsymSpecOptions) -> Put:
    """The full view in the place of both."""
    return lambda request: _with(request, options, edits=())


def compressed_only(options: AsymSpecOptions) -> Put:
    """The compressed view in the place of both."""

    def put(request: ChatRequest) -> ChatRequest:
        asymspec = request.asymspec
        if asymspec is None:
            return _with(request, options, edits=())
        return _with(
            replace(
                request,
                messages=asymspec.compressed_messages(request.messages),
                tools=request.tools if asymspec.tools is None else asymspec.tools,
            ),
            options,
            edits=(),
        )

    return put


def _with(request: ChatRequest, options: AsymSpecOptions, **view: Any) -> ChatRequest:
    """The request with these options; whether a temperature is refused stays its own choice."""
    given: dict[str, Any] = options.model_dump(exclude_unset=True)
    if request.asymspec is not None:
        given["on_sampling"] = request.asymspec.on_sampling
    return replace(request, asymspec=AsymSpecRequest.of(**given, **view))
