"""Protected spans: what counts as one, that it costs linear time, and what becomes of dropped ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.compress import AutoCompressor, HeadTail
from asymspec_agents.compress.mentioned import Mentioned
from asymspec_agents.compress.protected import mentions, protected_spans
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()


@pytest.mark.parametrize(
    "span",
    [
        "INV-2024-001",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha256:0123456789abcdef",
        "12.5 ms",
        "$12,000.50",
        "5 %",
        "2026-11-30T10:00:00Z",
        "10:30",
        "/var/log/app.log",
        "C:\\tmp\\x.txt",
        "https://a.example/b?c=1",
        "someone@example.org",
        "`x = 1`",
        "```\nx = 1\n```",
        '"amount"',
        "never",
        "didn't",
        "ValueError",
        "json.JSONDecodeError",
        "snake_case_name",
    ],
)
def test_what_is_protected(span: str) -> None:
    text = f"It was seen, they say: {span} : and no more of it."
    if span.startswith("```"):
        text = f"Before.\n{span}\nAfter."
    assert span in [text[start:end] for start, end in protected_spans(text)]


def test_common_words_are_not_protected() -> None:
    text = "The quick brown fox jumps over the lazy dog, and then it sleeps (a while)."
    assert protected_spans(text) == []


@given(text=st.text(st.characters(exclude_categories=()), max_size=300))
def test_spans_are_in_order_and_apart(text: str) -> None:
    end = 0
    for start, span_end in protected_spans(text):
        assert end <= start < span_end <= len(text)
        end = span_end
    assert all(name in text for name in mentions(text))


@pytest.mark.parametrize("piece", ["a", "-", "1", "1.", "@", "a@", "/a", "`", '"a":', "://", "x1-", "a_"])
def test_hostile_text_costs_linear_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))  # what is quadratic would not end
    protected_spans(text)
    mentions(text)


def test_dropped_identifiers_are_listed_below_prose() -> None:
    filler = "Nobody remembers what was said on that day, and the rain went on. " * 40
    text = f"{filler}Ticket OPS-4711 is at https://status.example/x and /srv/app.log, ValueError. {filler}"
    made = Mentioned(HeadTail()).compress(text, query="", target_tokens=400, counter=COUNTER)
    last = made.text.split("\n")[-1]
    assert last == "[also mentioned: https://status.example/x, /srv/app.log, ValueError, OPS-4711]"
    assert COUNTER.count(made.text) <= 400


def test_a_list_that_is_not_whole_says_so() -> None:
    text = " ".join(f"We closed ticket OPS-{number} and went home early." for number in range(1_000, 1_400))
    made = Mentioned(HeadTail()).compress(text, query="", target_tokens=600, counter=COUNTER)
    listed = made.text.split("\n")[-1]
    names, _, more = listed.removeprefix("[also mentioned: ").removesuffix(" more]").rpartition(", and ")
    shown = {name for name in mentions(made.text.replace(",", " ")) if name.startswith("OPS-")}
    assert len(shown) + int(more) == 400
    assert len(names.split(", ")) > 3


def test_prose_without_names_has_no_list() -> None:
    made = AutoCompressor().compress(
        "It was a long day. " * 500, query="", target_tokens=300, counter=COUNTER
    )
    assert "also mentioned" not in made.text
