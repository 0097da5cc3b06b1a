"""Properties of what the gateway is made of: events, added fields, headers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import BackendError
from asymspec_agents.gateway.events import EventTap, failure_events, whole_events
from asymspec_agents.gateway.headers import answer_headers, request_headers
from asymspec_agents.gateway.splicing import encoded, with_fields
from asymspec_agents.wire.failures import Failure

texts = st.text(max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(texts.filter(lambda name: name not in ("error", "choices", "asymspec")), values)
ENDS = st.sampled_from(["\n\n", "\r\n\r\n", "\r\r"])


def event(data: dict[str, Any], end: str, comment: str, is_split: bool) -> bytes:
    line = end[: len(end) // 2]
    texts = json.dumps(data, ensure_ascii=False, indent=0 if is_split else None).split("\n")
    lines = [f": {comment}", "event: message", "id: 7"] if comment else []
    whole = line.join([*lines, *(f"data: {text}" for text in texts)]) + end
    return whole.encode("utf-8", "surrogatepass")


events = st.builds(event, objects, ENDS, st.sampled_from(["", "ping"]), st.booleans())
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


def passed(pieces: list[bytes], tap: EventTap) -> list[bytes]:
    async def given_pieces() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def collected() -> list[bytes]:
        return [block async for block in whole_events(given_pieces(), tap)]

    return asyncio.run(collected())


@given(stream=st.lists(events, max_size=6), cuts=st.lists(st.integers(0, 600), max_size=8))
def test_a_stream_passes_unchanged_however_it_is_cut(stream: list[bytes], cuts: list[int]) -> None:
    whole = b"".join([*stream, LAST, b"data: [DONE]\n\n"])
    at = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    tap = EventTap(keeps=True)
    blocks = passed([whole[a:b] for a, b in itertools.pairwise(at)], tap)
    assert b"".join(blocks) == whole
    assert tap.kept == whole
    assert tap.finish_reason == "stop"
    assert all(block.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) for block in blocks)


@given(stream=st.lists(events, max_size=4), cut=st.integers(0, 600))
def test_a_report_is_added_to_the_last_chunk_alone(stream: list[bytes], cut: int) -> None:
    whole = b"".join([*stream, LAST, b"data: [DONE]\n\n"])
    tap = EventTap({"mode": "floor"})
    got = b"".join(passed([whole[:cut], whole[cut:]], tap))
    added = LAST.replace(b"}]}", b'}],"asymspec":{"mode":"floor"}}')
    assert got == whole.replace(LAST, added)


def test_an_events_other_fields_stay_beside_a_report() -> None:
    last = b"id: 7\r\n" + LAST.replace(b',"delta"', b',\ndata: "delta"').replace(b"\n", b"\r\n")
    (got,) = passed([last], EventTap({"mode": "floor"}))
    assert got.startswith(b"id: 7\ndata: ")
    assert json.loads(got.removeprefix(b"id: 7\ndata: "))["asymspec"] == {"mode": "floor"}


def test_an_event_without_end_is_given_up() -> None:
    with pytest.raises(BackendError, match="longer than"):
        passed([b"data: " + b"a" * 1_000_000] * 20, EventTap())


def test_a_failure_ends_a_stream_as_clients_know_it() -> None:
    told = failure_events(Failure(502, "c", "gone \ud800"))
    error, done, empty = told.split(b"\n\n")
    assert json.loads(error.removeprefix(b"data: "))["error"]["message"] == "gone \ud800"
    assert (done, empty) == (b"data: [DONE]", b"")


@given(
    first=st.dictionaries(texts, values), more=st.dictionaries(texts, values), indent=st.none() | st.just(2)
)
def test_added_fields_are_there_and_the_rest_is_as_it_was(
    first: dict[str, Any], more: dict[str, Any], indent: int | None
) -> None:
    more = {name: value for name, value in more.items() if name not in first}
    raw = json.dumps(first, indent=indent).encode() + b" \n"
    spliced = with_fields(raw, more)
    assert json.loads(spliced) == {**first, **more}
    assert spliced.startswith(raw.rstrip()[:-1].rstrip())
    assert with_fields(b"\xef\xbb\xbf" + raw, more) == spliced or not more


def test_what_is_encoded_is_ascii() -> None:
    assert encoded({"a": "ü\ud800"}) == b'{"a":"\\u00fc\\ud800"}'


HOP = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization"]
SECRET = ["authorization", "cookie", "x-api-key", "api-key"]
names = st.sampled_from(["x-a", "x-b", "openai-beta", *HOP, *SECRET, "x-forwarded-for", "host"])
header_lists = st.lists(
    st.tuples(names, st.sampled_from(["1", "x-a", "close, X-B", "keep-alive"])), max_size=8
)


@given(header_lists)
def test_no_hop_and_no_secret_passes(given: list[tuple[str, str]]) -> None:
    raw = [(name.title().encode(), value.encode()) for name, value in given]
    named = {
        token.strip().lower() for name, value in given if name == "connection" for token in value.split(",")
    }
    sent, answered = request_headers(raw), answer_headers(raw)
    for passed_on in (sent, answered):
        kept = {name.decode() for name, _ in passed_on}
        assert not kept & {*HOP, *named}
    assert not {name.decode() for name, _ in sent} & {*SECRET, "host", "x-forwarded-for"}
    expected = [(n, v) for n, v in given if n in ("x-a", "x-b", "openai-beta") and n not in named]
    assert sent == [(name.encode(), value.encode()) for name, value in expected]
