"""What is shown of a run: counts, running means and the time left, on a terminal and in a file."""

from __future__ import annotations

import io

import pytest

from evals import progress
from evals.progress import Row, Tally, shown
from evals.records import Failure, Record


def _record(cell: str, *, failed: bool = False) -> Record:
    failure = Failure(stage="answer", error_type="E", message="m") if failed else None
    return Record(suite="s", sample="a", cell=cell, failure=failure)


def test_means_count_failures_and_what_was_recorded_before() -> None:
    tally = Tally([Row("s", "floor", 4, num_done=2, num_failed=1, sum_values=1.0), Row("s", "ceiling", 4)])
    assert tally.left_s is None
    assert tally.summary == "2 of 8 answers"
    tally.ended(_record("floor"), 1.0, 2.0)
    tally.ended(_record("floor", failed=True), 0.0, 4.0)
    floor, ceiling = tally.rows.values()
    assert str(floor) == "s · floor: 4/4, mean 0.500, 2 failed"
    assert str(ceiling) == "s · ceiling: 0/4, mean -"
    assert tally.left_s == pytest.approx(12.0)  # ceiling was not timed yet: what the others took
    tally.ended(_record("ceiling"), 1.0, 60.0)
    assert tally.left_s == pytest.approx(180.0)
    assert tally.summary == "5 of 8 answers, about 3 min 00 s left"


def test_long_waits_are_told_in_hours() -> None:
    tally = Tally([Row("s", "floor", 4001)])
    tally.ended(_record("floor"), 1.0, 10.0)
    assert tally.summary.endswith("about 11 h 06 min left")


def test_a_file_gets_lines_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with shown([Row("s", "floor", 2), Row("s", "ceiling", 0)], stream) as tally:
        tally.began(("s", "a", "floor"))
        tally.ended(_record("floor"), 1.0, 0.0)
        assert not stream.getvalue()
        monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
        tally.ended(_record("floor"), 0.0, 0.0)
    now = ["2 of 2 answers, about 0 s left", "  s · floor: 2/2, mean 0.500"]
    assert stream.getvalue().splitlines() == [*now, *now, "  s · ceiling: 0/0, mean -"]


def test_a_stopped_run_shows_no_closing_lines() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), shown([Row("s", "floor", 2)], stream):
        raise KeyboardInterrupt
    assert not stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_cells_live() -> None:
    stream = Terminal()
    with shown([Row("s", "asymspec on [head]@0.5", 2), Row("s", "ceiling", 2)], stream) as tally:
        tally.began(("s", "a", "ceiling"))
        tally.ended(_record("ceiling", failed=True), 0.0, 1.0)
    text = stream.getvalue()
    assert "asymspec on [head]@0.5" in text
    assert "1 of 4 answers" in text
    assert "0.000" in text
