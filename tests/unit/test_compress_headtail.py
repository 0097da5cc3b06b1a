"""Head/tail truncation and the cuts it makes."""

from __future__ import annotations

import re

import pytest

from asymspec_agents.compress import HeadTail
from asymspec_agents.compress.cuts import is_grapheme_boundary, longest_fit
from asymspec_agents.compress.marker import left_out
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()


def truncate(text: str, target_tokens: int, head_share: float = 0.6) -> str:
    return HeadTail(head_share).truncate(text, target_tokens, COUNTER)


def test_text_within_the_target_is_unchanged() -> None:
    assert truncate("short text", 100) == "short text"
    assert truncate("", 0) == ""


def test_lines_stay_whole_and_the_marker_tells_size_and_reference() -> None:
    lines = [f"line number {number} of the text" for number in range(400)]
    text = "\n".join(lines)
    shortened = truncate(text, 200)
    head, marker, tail = re.split(r"(\[… .* …\])\n", shortened)
    assert head.startswith("line number 0 of the text\n")
    assert tail.endswith("line number 399 of the text")
    assert all(line in lines for line in (head + tail).splitlines())
    assert marker == left_out(len(text) - len(head) - len(tail), short_reference(text))


def test_a_single_line_is_cut_at_words() -> None:
    text = " ".join(f"word{number}" for number in range(5000))
    head, tail = re.split(r" \[… .* …\] ", truncate(text, 150))
    assert "  " not in head + tail
    assert text.startswith(head + " ")
    assert text.endswith(" " + tail)


def test_the_marker_alone_stands_where_nothing_fits() -> None:
    text = "word " * 1000
    assert truncate(text, 3) == left_out(5000, short_reference(text))
    assert truncate("a few words of text", 1) == "a few words of text"  # the marker would be longer


@pytest.mark.parametrize("head_share", [0.0, 0.5, 1.0])
def test_the_target_is_met_and_used(head_share: float) -> None:
    text = "Some sentence with words, and numbers such as 12345. " * 2000
    num_tokens = COUNTER.count(truncate(text, 500, head_share))
    assert 450 <= num_tokens <= 500


@pytest.mark.parametrize("piece", ["👩‍💻", "🇩🇪", "👍🏽", "e\u0301\u0302", "क्षि", "각", "\ud83d\udc69"])
def test_no_visible_character_is_split(piece: str) -> None:
    text = piece * 3000
    for target in (60, 61, 62, 63, 64):
        kept = re.sub(r"\s?\[…[^]]*…\]\s?", "|", truncate(text, target))
        assert all(len(part) % len(piece) == 0 for part in kept.split("|"))


def test_boundaries_agree_with_a_unicode_library() -> None:
    regex = pytest.importorskip("regex")
    text = "a\u0301b👩‍💻c🇩🇪🇫🇷d👍🏽각한\r\nक्षि\u0600१\u200d😀 ไทย\ufe0f가\U000e0067ﾞ"
    allowed = {match.start() for match in regex.finditer(r"\X", text)}
    assert all(index in allowed for index in range(1, len(text)) if is_grapheme_boundary(text, index))


def test_longest_fit_is_near_the_longest_and_cheap() -> None:
    asked: list[int] = []

    def num_tokens(length: int) -> int:
        asked.append(length)
        return length // 3

    assert 3000 * 0.98 <= longest_fit(num_tokens, 5_000_000, 1000) <= 3002
    assert max(asked) < 10_000
    assert longest_fit(lambda n: n // 1000, 5_000_000, 1000) >= 980_000
    assert longest_fit(lambda n: 10 * n, 100, 9) == 0
    assert longest_fit(lambda n: n, 0, 5) == 0


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_head_share_is_checked(share: float) -> None:
    with pytest.raises(ConfigurationError, match="head_share"):
        HeadTail(share)
