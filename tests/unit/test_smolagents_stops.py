"""Streamed text never shows a stop string, wherever the pieces are cut."""

from hypothesis import given
from hypothesis import strategies as st

from smolagents_asymspec.stops import StopCutter, cut_at_stop

texts = st.text(alphabet="ab\n<x", max_size=40)
stops = st.lists(st.text(alphabet="ab\n<", min_size=1, max_size=4), max_size=3)


@given(pieces=st.lists(texts, max_size=8), stop=stops)
def test_pieces_add_up_to_the_text_before_the_first_stop_string(pieces, stop):
    cutter = StopCutter(stop)
    emitted = "".join(cutter.feed(piece) for piece in pieces) + cutter.finish()
    whole = "".join(pieces)
    ends = [(whole.find(string) + len(string), whole.find(string)) for string in stop if string in whole]
    assert emitted == whole[: min(ends)[1]] if ends else emitted == whole
    assert cutter.is_stopped == bool(ends)
    assert not any(string in emitted for string in stop)


@given(pieces=st.lists(texts, max_size=8), stop=stops)
def test_nothing_emitted_is_ever_taken_back(pieces, stop):
    cutter = StopCutter(stop)
    seen = ""
    for number, piece in enumerate(pieces, 1):
        seen += cutter.feed(piece)
        assert cut_at_stop("".join(pieces[:number]), stop).startswith(seen)


def test_the_first_that_is_complete_counts_wherever_the_pieces_are_cut():
    for pieces in (["\n<\n"], ["\n<", "\n"], ["\n", "<\n"]):
        cutter = StopCutter(["<", "\n<\n"])
        assert "".join(map(cutter.feed, pieces)) == "\n"


def test_text_that_cannot_become_a_stop_string_is_passed_on_at_once():
    cutter = StopCutter(["Observation:"])
    assert cutter.feed("I will look.\n") == "I will look.\n"
    assert cutter.feed("Obs") == ""
    assert cutter.feed("cure") == "Obscure"


def test_an_empty_stop_string_stops_nothing():
    assert cut_at_stop("all of it", ["", "zz"]) == "all of it"
