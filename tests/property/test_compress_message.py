"""A user's long message: any text, ends kept, nothing raised, never longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.compress.message import MAX_END_CHARS, EndsKept
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
PIECES = st.sampled_from(["\n\n", "\n", "\ud800", "👩\u200d💻", "词语。", "word " * 200, "x" * 2_000])
texts = st.lists(st.text(max_size=60) | PIECES, max_size=30).map("".join)


@given(texts, st.integers(1, 400))
def test_any_message_keeps_its_ends_and_grows_by_a_marker_at_most(text: str, target: int) -> None:
    made = EndsKept(HeadTail()).compress(text, query="", target_tokens=target, counter=COUNTER).text
    limit = min(MAX_END_CHARS, len(text.strip()) // 4)
    if limit > 120:  # a cut may give up some of the limit for a whole paragraph or word
        assert made[:1] == text[:1]
        assert made[-1:] == text[-1:]
    assert len(made) <= len(text) + 100


def test_words_that_ask_are_kept_at_both_ends() -> None:
    text = "Read this:\n\n" + "row\n" * 5_000 + "\n\nHow many rows?"
    made = EndsKept(HeadTail()).compress(text, query="", target_tokens=100, counter=COUNTER)
    assert made.text.startswith("Read this:\n\n")
    assert made.text.endswith("\n\nHow many rows?")
    assert COUNTER.count(made.text) <= 110
