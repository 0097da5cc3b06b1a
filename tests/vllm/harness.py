"""The stub server as tests use it: requests in, answers or errors out, in the loop of vLLM's objects."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import dataclass
from typing import Any

import httpx

from asymspec_agents.messages import parse_messages, parse_tools
from tests.engine.tiny_folder import FULL, SHORT

from .stub_server import StubServer

__all__ = ["BODY", "CHAT", "TEXT", "Harness", "full_ids"]

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BODY: dict[str, Any] = {"messages": list(FULL), "asymspec": {"edits": list(SHORT)}, "max_tokens": 9}


@dataclass
class Harness:
    """The server, and the one event loop in which vLLM's objects live."""

    server: StubServer
    loop: asyncio.AbstractEventLoop

    def post(self, path: str, body: Any, **kwargs: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            async with self.server.client() as client:
                if isinstance(body, bytes):
                    headers = {"content-type": "application/json", **kwargs.pop("headers", {})}
                    return await client.post(path, content=body, headers=headers, **kwargs)
                return await client.post(path, json=body, **kwargs)

        return self.loop.run_until_complete(call())

    def get(self, path: str) -> httpx.Response:
        async def call() -> httpx.Response:
            async with self.server.client() as client:
                return await client.get(path)

        return self.loop.run_until_complete(call())

    def answer(self, path: str, body: Any) -> dict[str, Any]:
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def error(self, path: str, body: Any, status: int = 400) -> dict[str, Any]:
        before = len(self.server.engine.calls)
        response = self.post(path, body)
        assert response.status_code == status, response.text
        assert len(self.server.engine.calls) == before, "a refused request reached the engine"
        error: dict[str, Any] = response.json()["error"]
        return error

    @property
    def call(self) -> Any:
        """The last request the engine got."""
        return self.server.engine.calls[-1]

    def ids(self, messages: Any, tools: Any = ()) -> list[int]:
        """Token ids by the tokenizer's own template."""
        tokenizer = self.server.engine.renderer.tokenizer
        wire = [message.wire() for message in parse_messages(messages)]
        offered = [tool.wire() for tool in parse_tools(tools)] or None
        text = tokenizer.apply_chat_template(wire, tools=offered, add_generation_prompt=True, tokenize=False)
        return list(tokenizer.encode(text, add_special_tokens=False))


def full_ids(call: Any) -> list[int]:
    ids = array("i")
    ids.frombytes(call.asymspec["full_ids"])
    return ids.tolist()
