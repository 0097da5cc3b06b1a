"""The guard: a checker sees the full view before it is sent, and no failure of its own opens the gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.gateway.app import create_gateway
from asymspec_agents.gateway.checking import CheckedCall, URLCheck
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from tests.gateway.serving import CHAT, LONG, apart, ask
from tests.odd_server import Call, free_port, odd_server


class Checker:
    """Refuses calls whose full view holds a word, and remembers what it was shown."""

    def __init__(self, word: str = "reboot") -> None:
        self.word = word
        self.calls: list[CheckedCall] = []

    async def __call__(self, call: CheckedCall) -> str | None:
        self.calls.append(call)
        return "it asks for a reboot" if self.word in json.dumps(call.body) else None


def hidden(text: str) -> dict[str, Any]:
    """A call in the middle of whose long result stands a text that no rendition keeps."""
    lines = LONG["messages"][3]["content"].splitlines(keepends=True)
    result = {**LONG["messages"][3], "content": "".join([*lines[:200], text + "\n", *lines[200:]])}
    return {**LONG, "messages": [*LONG["messages"][:3], result]}


def test_it_sees_what_only_the_drafter_reads() -> None:
    checker = Checker()
    with apart(check=checker, compressor=HeadTail()) as (upstream, url):
        assert ask(url, hidden("please continue")).status_code == 200
        (edit,) = upstream.calls[0].body["asymspec"]["edits"]
        assert "please continue" not in edit["text"]
        refused = ask(url, hidden("please reboot"), headers={"x-request-id": "r-1"})
    assert len(upstream.calls) == 1
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "refused_by_check")
    assert "it asks for a reboot" in refused.json()["error"]["message"]
    shown = checker.calls[1]
    assert (shown.request_id, shown.path, shown.model) == ("r-1", "/v1/chat/completions", "big")
    assert shown.body == hidden("please reboot")


def test_it_sees_what_files_hold() -> None:
    part = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,cmVib290"}}
    with apart(check=Checker()) as (_, url):
        body = {**CHAT, "messages": [{"role": "user", "content": [part]}]}
        assert ask(url, body).status_code == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "reboot"}),
        ("/v1/chat/completions", {**CHAT, "asymspec": {"edits": [{"message": 0, "text": "reboot"}]}}),
        ("/tokenize", {"prompt": "reboot"}),
    ],
)
def test_it_sees_every_way_in(path: str, body: Mapping[str, Any]) -> None:
    with apart(check=Checker()) as (upstream, url):
        assert ask(url, body, path).status_code == 403
    assert not upstream.got


async def raises(call: CheckedCall) -> str | None:
    raise RuntimeError("a bug")


async def hangs(call: CheckedCall) -> str | None:
    await asyncio.Event().wait()
    return None


async def nonsense(call: CheckedCall) -> Any:
    return False


@pytest.mark.parametrize("check", [raises, hangs, nonsense])
def test_it_fails_closed(check: Any) -> None:
    with apart(check=check, check_timeout_s=0.2) as (upstream, url):
        answer = ask(url)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "check_failed")
    assert "a bug" not in answer.text
    assert not upstream.got


def test_it_fails_open_only_if_configured() -> None:
    with apart(check=raises, on_check_failure="allow") as (_, url):
        assert ask(url).status_code == 200


VERDICTS: dict[str, Any] = {
    "allow": {"allow": True},
    "refuse": {"allow": False, "reason": "too loud"},
    "refuse without a reason": {"allow": False},
    "no verdict": {"allowed": True},
    "not quite true": {"allow": 1},
    "no object": [True],
    "no json": b"yes",
}


def test_a_checker_behind_a_url() -> None:
    verdict: list[Any] = []

    def answer(call: Call) -> None:
        call.reply(verdict[-1], status=500 if verdict[-1] == b"" else 200)

    got = {}
    with odd_server(answer, handshake=None) as server:
        check = URLCheck(server.url + "/check?a=1", "check-key")
        with apart(check=check) as (_, url):
            for name, said in [*VERDICTS.items(), ("error", b"")]:
                verdict.append(said)
                got[name] = ask(url)
        asked = server.posts[0]
    assert asked.path == "/check?a=1"
    assert asked.headers["authorization"] == "Bearer check-key"
    assert asked.body["body"] == CHAT
    assert asked.body.keys() == {"request_id", "path", "model", "body"}
    refused = {name for name, answer in got.items() if answer.status_code == 403}
    failed = {name for name, answer in got.items() if answer.status_code == 503}
    assert refused == {"refuse", "refuse without a reason"}
    assert failed == {"no verdict", "not quite true", "no object", "no json", "error"}
    assert got["allow"].status_code == 200
    assert "too loud" in got["refuse"].text


def test_a_checker_that_is_not_there() -> None:
    with apart(check=URLCheck(f"http://127.0.0.1:{free_port()}")) as (upstream, url):
        assert ask(url).json()["error"]["code"] == "check_failed"
    assert not upstream.got


def test_its_url_is_checked() -> None:
    for url in ("file:///etc/passwd", "127.0.0.1", "http://u:p@a"):
        with pytest.raises(ConfigurationError, match="check_url"):
            URLCheck(url)


FILE = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,cmVib290"}}
WITH_FILE = [{"role": "user", "content": [FILE]}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": WITH_FILE, "asymspec": None}),
        ("/v1/chat/completions", {"messages": WITH_FILE, "asymspec": {"edits": []}}),
        ("/v1/chat/completions", {**CHAT, "asymspec": {"messages": WITH_FILE}}),
        ("/tokenize", {"messages": WITH_FILE}),
        (
            "/v1/responses",
            {
                "model": "big",
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_file", "filename": "a.txt", **FILE["file"]}],  # type: ignore[dict-item]
                    }
                ],
            },
        ),
    ],
)
@pytest.mark.parametrize("plain", [None, "pass", "compress"])
def test_it_sees_what_files_hold_whatever_else_comes_with_them(
    path: str, body: dict[str, Any], plain: str | None
) -> None:
    options: dict[str, Any] = {} if plain is None else {"info": None, "on_plain_upstream": plain}
    with apart(check=Checker(), **options) as (upstream, url):
        assert ask(url, body, path).status_code == 403
    assert not upstream.got


def test_what_it_is_shown_of_files_is_not_what_is_sent() -> None:
    body = json.dumps({"messages": WITH_FILE, "asymspec": None}, indent=1).encode()
    with apart(check=Checker("nothing")) as (upstream, url):
        assert ask(url, body).status_code == 200
    assert upstream.calls[0].content == body


def test_one_that_is_not_awaited_is_refused_at_once() -> None:
    def check(call: CheckedCall) -> None:
        return None

    with pytest.raises(ConfigurationError, match="async def"):
        create_gateway(GatewayOptions(upstream=UpstreamOptions("http://127.0.0.1:1")), check=check)  # type: ignore[arg-type]
