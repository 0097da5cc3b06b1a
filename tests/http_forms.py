"""Ways to ask a server through an HTTPBackend, and a good server's answer to each."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, ChatResponse, HTTPBackend, collect
from asymspec_agents.backends.request import AnyRequest
from tests.odd_server import ANSWER, Call, chunk, sse

__all__ = ["FORMS", "USER", "Form", "answer", "ask", "astream", "every_form", "http_threads"]

USER = {"role": "user", "content": "Hello"}
END = chunk({}, "stop", asymspec={"accepted": 1})
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
STREAM = sse(chunk({"role": "assistant", "content": ""}), chunk({"content": "yes"}), END, USAGE, "[DONE]")

Form = Callable[[HTTPBackend, AnyRequest], ChatResponse]


def ask(*, edits: Any = (), **fields: Any) -> ChatRequest:
    """An AsymSpec request, its views the same unless edits are given."""
    return ChatRequest(messages=[USER], asymspec={"edits": edits}, **fields)


def answer(call: Call) -> None:
    """As a good server does."""
    if call.body.get("stream"):
        call.begin()
        call.send(STREAM)
    else:
        call.reply(ANSWER)


async def astream(backend: HTTPBackend, request: AnyRequest) -> list[Any]:
    """The deltas of an asynchronous stream."""
    return [delta async for delta in backend.astream(request)]


FORMS: dict[str, Form] = {
    "generate": lambda backend, request: backend.generate(request),
    "agenerate": lambda backend, request: asyncio.run(backend.agenerate(request)),
    "stream": lambda backend, request: collect(backend.stream(request)),
    "astream": lambda backend, request: collect(asyncio.run(astream(backend, request))),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def http_threads() -> list[str]:
    """The threads of backends that are open."""
    gc.collect()  # an agent of an earlier test, dropped with its backend, may be part of a cycle
    return [thread.name for thread in threading.enumerate() if thread.name == "asymspec-http"]
