"""From tokens to text: whole characters, stop strings, and nothing lost, whatever the tokens' borders."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.engine.loop import Block
from asymspec_agents.engine.text import REPLACEMENT, TextStream
from asymspec_agents.engine.trim import Step, Trimmer
from asymspec_agents.errors import ConfigurationError


class Bytes:
    """A byte-level tokenizer: token i is the i-th byte string."""

    def __init__(self, vocabulary: Sequence[bytes]) -> None:
        self.vocabulary = list(vocabulary)

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        known = (self.vocabulary[i] for i in token_ids if i >= 0)  # special tokens have ids below
        return b"".join(known).decode(errors="replace")


def stream(chunks: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[list[str], bool]:
    """The pieces of text the chunks give, and whether a stop string ended them."""
    text = TextStream(Bytes(chunks), stop)
    pieces = []
    for token in range(len(chunks)):
        pieces.append(text.push(token))
        if text.is_stopped:
            break
    return [*pieces, text.finish()], text.is_stopped


def cut(chunks: Sequence[bytes], stop: Sequence[str]) -> str:
    """The text up to the first stop string that the growing text contains."""
    for count in range(1, len(chunks) + 1):
        text = b"".join(chunks[:count]).decode(errors="replace")
        if count < len(chunks):
            text = text.rstrip(REPLACEMENT)  # not final yet
        found = [text.find(s) for s in stop if s in text]
        if found:
            return text[: min(found)]
    return b"".join(chunks).decode(errors="replace")


def chop(data: bytes, borders: list[int]) -> list[bytes]:
    places = [0, *sorted(b % (len(data) + 1) for b in borders), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


texts = st.text(alphabet="ab<|é中🙂 \n", max_size=20)


@given(text=texts, borders=st.lists(st.integers(0, 200), max_size=12))
def test_pieces_concatenate_to_the_text(text: str, borders: list[int]) -> None:
    pieces, is_stopped = stream(chop(text.encode(), borders))
    assert "".join(pieces) == text
    assert REPLACEMENT not in "".join(pieces)
    assert not is_stopped


@given(
    text=texts,
    borders=st.lists(st.integers(0, 200), max_size=12),
    stop=st.lists(st.text(alphabet="ab<|é中", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_stop_strings_end_the_text_before_them(text: str, borders: list[int], stop: list[str]) -> None:
    chunks = chop(text.encode(), borders)
    pieces, is_stopped = stream(chunks, stop)
    assert "".join(pieces) == cut(chunks, stop)
    assert is_stopped == any(s in text for s in stop)


@given(data=st.binary(max_size=20), borders=st.lists(st.integers(0, 200), max_size=12))
def test_bytes_that_are_no_text_are_not_lost(data: bytes, borders: list[int]) -> None:
    pieces, _ = stream(chop(data, borders))
    assert "".join(pieces) == data.decode(errors="replace")


def test_a_character_in_three_tokens_comes_once_it_is_whole() -> None:
    first, second, third = (bytes([b]) for b in "中".encode())
    assert stream([b"a", first, second, third, b"b"])[0] == ["a", "", "", "中", "b", ""]


def test_an_unfinished_character_comes_at_the_end() -> None:
    assert stream([b"a", "中".encode()[:2]])[0] == ["a", "", REPLACEMENT]


def test_what_may_become_a_stop_string_is_held_back() -> None:
    assert stream([b"say", b" <", b"end", b">x"], ["<end>"])[0] == ["say", " ", "", "", ""]
    assert stream([b"say", b" <", b"en", b"x"], ["<end>"])[0] == ["say", " ", "", "<enx", ""]
    assert stream([b"<", b"en"], ["<end>"])[0] == ["", "", "<en"]


def test_the_earliest_of_several_stop_strings_counts() -> None:
    assert stream([b"abcdef"], ["ef", "cd"]) == (["ab", ""], True)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="empty string"):
        TextStream(Bytes([]), ["a", ""])


MARK, DROPPED = -1, -2


def with_marks(tokens: Sequence[bytes | int], stop: Sequence[str] = ()) -> tuple[str, bool]:
    """The text of byte strings and special tokens, and whether a stop string ended it."""
    vocabulary = [token for token in tokens if isinstance(token, bytes)]
    text, place = TextStream(Bytes(vocabulary), stop, {MARK: "[M]"}), itertools.count()
    pieces = []
    for token in tokens:
        pieces.append(text.push(token if isinstance(token, int) else next(place)))
        if text.is_stopped:
            break
    return "".join([*pieces, text.finish()]), text.is_stopped


@given(
    parts=st.lists(texts, min_size=1, max_size=5),
    borders=st.lists(st.integers(0, 200), max_size=12),
    special=st.sampled_from([MARK, DROPPED]),
)
def test_visible_special_tokens_stand_where_they_came(
    parts: list[str], borders: list[int], special: int
) -> None:
    tokens: list[bytes | int] = []
    for part in parts:
        tokens += [*chop(part.encode(), borders), special]
    assert with_marks(tokens)[0] == "".join(part + ("[M]" if special == MARK else "") for part in parts)


@pytest.mark.parametrize(
    ("tokens", "stop", "text"),
    [
        ([b"a", MARK, b"b"], ["M"], "a[M]b"),
        ([b"a", MARK, b"b"], ["a[M"], "a[M]b"),
        ([b"a", MARK, b"b"], ["]b"], "a[M]b"),
        ([b"a", MARK, b"b"], ["ab"], "a[M]b"),
        ([b"a", DROPPED, b"b"], ["ab"], ""),
        ([b"a", MARK, b"b"], ["[M]"], "a"),
        ([b"a[", b"M]b"], ["[M]"], "a"),
        ([b"ab", MARK, b"cd"], ["d"], "ab[M]c"),
        ([b"ab", MARK, b"c"], ["b"], "a"),
        ([b"ab", MARK], ["bc"], "ab[M]"),
        (["中".encode()[:2], MARK, b"c"], [], REPLACEMENT + "[M]c"),
        ([MARK, MARK, "中".encode()[:2], "中".encode()[2:]], [], "[M][M]中"),
    ],
)
def test_a_visible_token_is_one_unit_to_stop_strings(
    tokens: list[bytes | int], stop: list[str], text: str
) -> None:
    assert with_marks(tokens, stop)[0] == text


EOS = 9
WORDS = [b"a", b"b", b"c", b"<", b"/s", b">", "é".encode()[:1], "é".encode()[1:], b"long", b"EOS"]


def trim(
    blocks: list[list[int]], *, stop: Sequence[str] = (), max_tokens: int = 99
) -> tuple[list[Step], str]:
    """The steps until the answer is complete, and why it ended (`more`: it did not)."""
    trimmer = Trimmer(TextStream(Bytes(WORDS), stop), frozenset({EOS}), max_tokens)
    steps = []
    for tokens in blocks:
        origins = ("accepted",) * (len(tokens) - 1) + ("fused",)
        steps.append(trimmer.trim(Block(tuple(tokens), origins, len(tokens), ())))  # type: ignore[arg-type]
        if trimmer.finish_reason is not None:
            break
    assert trimmer.num_tokens == sum(len(step.tokens) for step in steps)
    for step in steps:
        assert len(step.tokens) == len(step.origins)
    return steps, trimmer.finish_reason or "more"


def text_of(steps: list[Step]) -> str:
    return "".join(text for step in steps for text, _ in step.pieces)


def tokens_of(steps: list[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]


def test_nothing_comes_after_eos_in_mid_block() -> None:
    steps, reason = trim([[0, 1], [2, EOS, 0], [1]])
    assert (tokens_of(steps), text_of(steps), reason) == ([0, 1, 2, EOS], "abc", "stop")
    assert steps[-1].origins == ("accepted", "accepted")


def test_eos_at_once() -> None:
    assert trim([[EOS, 1, 1]])[0][0].pieces == ()


def test_max_tokens_in_mid_block() -> None:
    steps, reason = trim([[0, 1], [2, 0, 1]], max_tokens=3)
    assert (tokens_of(steps), text_of(steps), reason) == ([0, 1, 2], "abc", "length")


def test_eos_as_the_last_allowed_token_is_a_stop() -> None:
    assert trim([[0, EOS, 1]], max_tokens=2)[1] == "stop"


def test_a_stop_string_over_two_blocks() -> None:
    steps, reason = trim([[0, 3], [4, 5, 1, 1]], stop=["</s>"])
    assert (tokens_of(steps), text_of(steps), reason) == ([0, 3, 4, 5], "a", "stop")


def test_a_stop_string_that_the_limit_completes_is_a_stop() -> None:
    assert trim([[0, 3, 4, 5]], stop=["</s>"], max_tokens=4)[1] == "stop"


def test_the_limit_gives_out_what_was_held_back() -> None:
    steps, reason = trim([[0, 3, 4, 5]], stop=["</s>"], max_tokens=3)
    assert (text_of(steps), reason) == ("a</s", "length")


def test_a_piece_has_the_origin_of_the_token_that_completed_it() -> None:
    steps, reason = trim([[6, 7], [8]])
    assert [step.pieces for step in steps] == [(("é", "fused"),), (("long", "fused"),)]
    assert reason == "more"
