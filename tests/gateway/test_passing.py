"""What goes through the gateway unchanged, and what is added to it."""

from __future__ import annotations

import json

from tests.gateway.scripted import EVENTS, Script, chunks, completion
from tests.gateway.serving import CHAT, LONG, ask, both


def test_a_call_goes_upstream_with_both_views() -> None:
    raw = json.dumps({**LONG, "seed": 7, "x_unknown": {"a": [1.0, 1e3]}}, indent=1).encode()
    with both() as (upstream, url):
        answer = ask(url, raw)
    (got,) = upstream.calls
    head = raw.rstrip()[:-1].rstrip()
    assert got.content.startswith(head)  # every byte of the client's own
    added = json.loads(b"{" + got.content[len(head) + 1 :])
    assert added.keys() == {"asymspec", "temperature"}
    (edit,) = added["asymspec"]["edits"]
    assert edit["message"] == 3
    assert "8123" in edit["text"]
    assert answer.status_code == 200
    assert answer.headers["x-asymspec-view"] == "both"
    assert int(answer.headers["x-asymspec-compressed-tokens"]) < int(answer.headers["x-asymspec-full-tokens"])
    assert answer.content == completion(asymspec={"version": 1, "mode": "asymspec"})


def test_a_stream_comes_as_its_upstream_sent_it() -> None:
    with both() as (_, url):
        answer = ask(url, {**CHAT, "stream": True})
    assert answer.content == b"".join(chunks("Hel", "lo", asymspec={"version": 1, "mode": "asymspec"}))


def test_events_that_arrive_in_pieces_leave_whole() -> None:
    whole = b"".join(chunks("Grüße 😀", "\u2028", asymspec={"version": 1})).replace(b"\n\n", b"\r\n\r\n")
    with both() as (upstream, url):
        upstream.answer = lambda got: Script(
            [whole[at : at + 3] for at in range(0, len(whole), 3)], headers=[EVENTS]
        )
        assert ask(url, {**CHAT, "stream": True}).content == whole
