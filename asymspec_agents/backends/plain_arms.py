"""The baselines a server can answer without AsymSpec: one model, one view, a plain request."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ConfigurationError, UnsupportedRequestError
from ..protocol import AsymSpecReport, CachedTokens
from .answer import Usage
from .request import AnyRequest, ChatRequest

__all__ = ["PLAIN_ARMS", "as_plain", "check_arm", "plain_report"]

PLAIN_ARMS = ("floor", "ceiling", "drafter")


def check_arm(arm: str) -> None:
    """Raises ConfigurationError for an arm that no request can ask a server for."""
    known = ("asymspec", *PLAIN_ARMS)
    if arm not in known:
        raise ConfigurationError(
            f"arm={arm!r} cannot be asked of a server; arms over HTTP: {', '.join(known)}"
        )


def as_plain(request: AnyRequest, arm: str) -> AnyRequest:
    """The request without AsymSpec, on the view that this arm reads; what AsymSpec decodes is greedy.

    Raises UnsupportedRequestError where an AsymSpec request asks for sampling, as its decoding would.
    """
    if request.asymspec is not None and request.temperature:
        if request.asymspec.on_sampling != "greedy":
            raise UnsupportedRequestError(
                f"temperature={request.temperature}: AsymSpec decoding is greedy; send 0 or leave it out, "
                'or ask for on_sampling="greedy"'
            )
        request = replace(request, temperature=None)
    if isinstance(request, ChatRequest):
        asymspec = request.asymspec
        if asymspec is None or arm != "floor":
            return replace(request, asymspec=None)
        tools = request.tools if asymspec.tools is None else asymspec.tools
        messages = asymspec.compressed_messages(request.messages)
        return replace(request, messages=messages, tools=tools, asymspec=None)
    compressed = request.asymspec
    prompt = request.prompt if compressed is None or arm != "floor" else compressed.prompt
    return replace(request, prompt=prompt, asymspec=None)


def plain_report(arm: str, usage: Usage) -> AsymSpecReport:
    """The report of a baseline: who read how much, nothing drafted."""
    return AsymSpecReport(
        mode=arm,
        verifier_prompt_tokens=usage.prompt_tokens,
        cached_tokens=CachedTokens(verifier=usage.cached_tokens),
    )
