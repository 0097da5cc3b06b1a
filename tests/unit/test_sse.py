"""Server-sent events: whatever is written is read back, however the bytes are cut."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asymspec_agents.errors import BackendError
from asymspec_agents.wire import sse

ANY_TEXT = st.text(st.characters() | st.sampled_from("\u2028\u2029\x85\x0b\x0c\r\n\ud800:"))
OBJECTS = st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers(), max_size=3)


def fed(pieces: list[bytes]) -> list[str]:
    parser = sse.EventParser()
    return [data for piece in pieces for data in parser.feed(piece)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(OBJECTS, max_size=5), st.lists(st.integers(0, 10**6), max_size=12))
def test_events_come_back_whatever_the_cuts(objects: list[dict[str, object]], places: list[int]) -> None:
    events = [sse.event(json.dumps(item)) for item in objects]
    data = sse.COMMENT.join([b"", *events, sse.event(sse.DONE)])
    *read, done = fed(cut(data, places))
    assert [json.loads(item) for item in read] == objects
    assert done == sse.DONE


@given(
    st.lists(
        st.sampled_from([b"data: a", b"data:b", b"data", b"", b": c", b"event: d", b"id: 1"]), max_size=9
    ),
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=9, max_size=9),
    st.lists(st.integers(0, 10**6), max_size=12),
)
def test_line_ends_of_every_kind_mean_the_same_whatever_the_cuts(
    lines: list[bytes], ends: list[bytes], places: list[int]
) -> None:
    data = b"".join(line + end for line, end in zip(lines, ends, strict=False)) + b"\r\ndata: end\r\n\r\n"
    plain = b"".join(line + b"\n" for line in lines) + b"\ndata: end\n\n"
    # A carriage return before an empty line's line feed is one line end: such a text is another one.
    assume(
        b"\r\n"
        not in {a + b for (a, b), line in zip(itertools.pairwise(ends), lines[1:], strict=False) if not line}
    )
    assert fed(cut(data, places)) == fed([plain])
    assert fed([bytes([byte]) for byte in data]) == fed([plain])


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b"\n\n\n", []),
        (b"event: error\nid: 7\nretry: 5\ndata: a\n\n", ["a"]),
        (b": data: a\n\n", []),
        (b"datax: a\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"data: a\n", []),
        (b"data: a\r", []),
        (b"data: a\r\r", ["a"]),
    ],
)
def test_what_the_standard_says(data: bytes, events: list[str]) -> None:
    assert fed([data]) == events
    assert fed([bytes([byte]) for byte in data]) == events


def test_an_event_without_end_is_refused_and_a_long_one_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 10_000)
    for piece in (b"a" * 100, b"data: " + b"a" * 94 + b"\n"):
        with pytest.raises(BackendError, match="longer than 10,000 bytes"):
            fed([piece] * 101)
    assert len(fed([b"data: " + b"a" * 9_000, b"\n\n"] * 5)) == 5
