"""What every compressor promises for every string."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asymspec_agents.compress import AutoCompressor, ContentKind
from asymspec_agents.compress.cuts import is_grapheme_boundary
from asymspec_agents.compress.json_tree import parse, write
from asymspec_agents.compress.marker import left_out, short_reference
from asymspec_agents.compress.segments import segment
from asymspec_agents.tokens import EstimateCounter, TokenCounter, clean_text

PIECES = [
    *(
        "word ",
        "The end. ",
        "\n",
        "\n\n",
        "\r\n",
        "  ",
        "\t",
        "\x00",
        "\ud800",
        "\udc00",
        "中文。",
        "한국어 ",
        "👩‍💻",
        "🇩🇪",
    ),
    *(
        "e\u0301",
        "\u200d",
        "<|endoftext|>",
        '{"a": 1}',
        '"',
        "[",
        "]",
        "{",
        "}",
        "\\",
        "a,b,c\n",
        "# Title\n",
    ),
    *(
        "def f(x):\n    return x\n",
        "ERROR it broke\n",
        "2026-11-29 10:00:00 INFO x 1\n",
        "|",
        "[… 3 characters …]",
        "```\n",
        "## Part\n",
        "<p>",
        "<script>",
        "</main>",
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n",
        "+added\n",
        "-gone\n",
        "\u2028",
        "\u202eright",
        "https://a.b/c ",
        "INV-0012 ",
        "/srv/x.py ",
    ),
]
texts = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=400),
    st.lists(st.sampled_from(PIECES), max_size=80).map("".join),
    st.tuples(st.sampled_from(PIECES), st.integers(1, 600)).map(lambda pair: pair[0] * pair[1]),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
    max_leaves=120,
)
kinds: tuple[ContentKind, ...] = get_args(ContentKind)
COMPRESSOR = AutoCompressor()


class Characters:
    """Every character is a token."""

    name = "characters"

    def count(self, text: str) -> int:
        return len(text)


counters = st.sampled_from([EstimateCounter(), Characters()])


def holds(before: str, after: str, target_tokens: int, counter: TokenCounter) -> None:
    """Fails unless `after` is a rendition that every compressor may give."""
    num_tokens = counter.count(after)
    if counter.count(before) <= target_tokens:
        assert after == before
        return
    assert num_tokens <= counter.count(before)
    if num_tokens > target_tokens:  # nothing fits: a marker (and a label), or a text no longer than one
        marker = left_out(len(before), short_reference(before))
        assert len(after) <= 160 or num_tokens <= counter.count(marker)
    if len(after) < len(before) and "".join(after.split()) != "".join(before.split()):
        assert "…" in after


@pytest.mark.parametrize("kind", [None, *kinds])
@given(
    text=texts,
    query=st.sampled_from(["", "word", "中文", "a b error 1"]),
    target=st.integers(-1, 120),
    counter=counters,
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_kind_takes_every_string(
    kind: ContentKind | None, text: str, query: str, target: int, counter: TokenCounter
) -> None:
    if kind is None:
        rendition = COMPRESSOR.compress(text, query=query, target_tokens=target, counter=counter)
    else:
        rendition = COMPRESSOR.compress_as(kind, text, query=query, target_tokens=target, counter=counter)
    holds(text, rendition.text, target, counter)
    assert not rendition.degraded


@given(text=texts, target=st.integers(60, 200))
def test_head_and_tail_are_the_originals(text: str, target: int) -> None:
    counter = Characters()
    shortened = COMPRESSOR.head_tail.truncate(text, target, counter)
    if shortened == text:
        return
    reference = re.escape(short_reference(text))
    head, tail = re.split(rf"\[… [\d,]+ characters? left out; {reference} …\]", shortened)
    assert text.startswith((head, head[:-1]))
    assert text.endswith((tail, tail[1:]))


@given(value=values)
def test_json_survives_reading_and_writing(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert json.dumps(json.loads(write(parse(text))), separators=(",", ":")) == text


@given(value=values, target=st.integers(0, 150), counter=counters)
def test_shortened_json_is_json_within_the_target(value: object, target: int, counter: TokenCounter) -> None:
    text = json.dumps(value)
    shortened = COMPRESSOR.compress_as("json", text, query="", target_tokens=target, counter=counter).text
    json.loads(shortened)
    smallest = counter.count(json.dumps(short_reference(text))) + 45
    assert counter.count(shortened) <= max(target, smallest)


@given(text=texts)
def test_segments_cover_everything_in_order(text: str) -> None:
    spans = [span for passage in segment(text) for span in (*passage.headings, *passage.sentences)]
    end = 0
    for span in spans:
        assert span.start >= end
        assert not text[end : span.start].strip()
        assert text[span.start : span.end].strip()
        end = span.end
    assert not text[end:].strip()


@given(text=st.text(st.characters(exclude_categories=()), max_size=60))
def test_grapheme_boundaries_are_a_unicode_librarys(text: str) -> None:
    regex = pytest.importorskip("regex")
    starts = {match.start() for match in regex.finditer(r"\X", text)}
    assert all(index in starts for index in range(1, len(text)) if is_grapheme_boundary(text, index))


@given(text=texts, more=texts)
def test_the_estimate_grows_with_the_text(text: str, more: str) -> None:
    counter = EstimateCounter()
    assert counter.count(text) <= counter.count(text + more)
    assert counter.count(text) == counter.count(clean_text(text))
    assert (counter.count(text) == 0) == (not text)
