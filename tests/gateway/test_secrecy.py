"""What stays out of logs, traces and errors: contents and keys, whatever happens to a call."""

from __future__ import annotations

import logging

import httpx
import pytest

from asymspec_agents.trace import MemoryRecorder
from tests.gateway.scripted import EVENTS, Script, chunk, completion
from tests.gateway.serving import CHAT, LONG, apart, ask

WORD = "swordfish"
KEYS = ("client-key", "gateway-key")


async def refuses(call: object) -> str | None:
    raise ValueError(WORD)


def test_no_content_and_no_key_is_logged_or_traced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    recorder = MemoryRecorder()
    result = {**LONG["messages"][3], "content": LONG["messages"][3]["content"] + WORD}
    secret = {**LONG, "messages": [*LONG["messages"][:3], result], "user": WORD}
    malformed = {**CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": {"a": WORD}}]}]}
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    answers = (
        Script([completion(WORD, asymspec={})]),
        Script([b"{" + WORD.encode()]),
        Script([WORD.encode()], 500),
        Script([chunk({"content": WORD}), WORD.encode()], headers=[EVENTS]),
        Script([f"data: {WORD}\n\n".encode()], headers=[EVENTS]),
        Script(status=401),
    )
    options = {"api_keys": (KEYS[0],), "upstream_key": KEYS[1], "recorder": recorder, "shadow_rate": 1.0}
    with apart(**options) as (upstream, url):
        for answer in answers:
            upstream.answer = lambda got, answer=answer: answer
            ask(url, secret, headers=headers)
        ask(url, malformed, headers=headers)
        metrics = httpx.get(url + "/metrics", headers=headers).text
    with apart(check=refuses, recorder=recorder) as (_, url):
        ask(url, secret)
    ours = [record for record in caplog.records if not record.name.startswith("httpcore")]
    told = "\n".join([*(record.getMessage() for record in ours), repr(recorder.events), metrics])
    assert "request" in told
    for hidden in (WORD, *KEYS):
        assert hidden not in told
