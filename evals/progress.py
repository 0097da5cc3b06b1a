"""What whoever waits for a run sees: samples done, each cell's running mean, the time left."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from .records import Record

__all__ = ["Row", "Tally", "shown"]

PLAIN_EVERY_S = 30.0


@dataclass(slots=True)
class Row:
    """One cell of a suite: how many samples are asked, done and failed, and the sum of their metric."""

    suite: str
    cell: str
    num_samples: int
    num_done: int = 0
    num_failed: int = 0
    sum_values: float = 0.0
    num_timed: int = 0
    sum_s: float = 0.0

    @property
    def mean(self) -> float | None:
        """The metric's mean until now, failures counted as 0."""
        return self.sum_values / self.num_done if self.num_done else None

    @property
    def left(self) -> int:
        """How many samples are still to do."""
        return max(0, self.num_samples - self.num_done)

    def __str__(self) -> str:
        mean = "-" if self.mean is None else f"{self.mean:.3f}"
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{self.suite} · {self.cell}: {self.num_done}/{self.num_samples}, mean {mean}{failed}"


class Tally:
    """Counts along; `changed` is called after each record. What was recorded before is in the rows."""

    num_parallel = 1
    """How many answers are made at once."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {(row.suite, row.cell): row for row in rows}
        self.now = ""

    def changed(self) -> None:
        """Called when there is something new to show."""

    def began(self, record_key: tuple[str, str, str]) -> None:
        """Notes what is being worked at."""
        self.now = " · ".join(record_key)
        self.changed()

    def ended(self, record: Record, value: float, elapsed_s: float) -> None:
        """Counts a record."""
        row = self.rows[record.suite, record.cell]
        row.num_done += 1
        row.num_failed += record.failure is not None
        row.sum_values += value
        row.num_timed += 1
        row.sum_s += elapsed_s
        self.changed()

    @property
    def num_samples(self) -> int:
        """Samples times cells."""
        return sum(row.num_samples for row in self.rows.values())

    @property
    def num_done(self) -> int:
        """How many of them are done."""
        return sum(row.num_done for row in self.rows.values())

    @property
    def left_s(self) -> float | None:
        """Seconds left, by what each cell took; None until one was timed."""
        num_timed = sum(row.num_timed for row in self.rows.values())
        if not num_timed:
            return None
        usual_s = sum(row.sum_s for row in self.rows.values()) / num_timed
        left_s = sum(
            row.left * (row.sum_s / row.num_timed if row.num_timed else usual_s) for row in self.rows.values()
        )
        return left_s / self.num_parallel

    @property
    def summary(self) -> str:
        """One line: how many are done, and how long the rest takes."""
        left = "" if self.left_s is None else f", about {_duration(self.left_s)} left"
        return f"{self.num_done:,} of {self.num_samples:,} answers{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )


@contextlib.contextmanager
def shown(rows: Sequence[Row], stream: TextIO) -> Iterator[Tally]:
    """A tally that is shown: live on a terminal with rich, as lines every half minute elsewhere."""
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        with _live(rows, stream) as tally:
            yield tally
        return
    plain = _Plain(rows, stream)
    yield plain
    plain.show(is_end=True)


class _Plain(Tally):
    def __init__(self, rows: Sequence[Row], stream: TextIO) -> None:
        super().__init__(rows)
        self._stream = stream
        self._shown_at = time.monotonic()
        self._shown_rows = set(map(str, rows))

    def changed(self) -> None:
        if time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self.show()

    def show(self, *, is_end: bool = False) -> None:
        """Prints the summary, and the rows that have changed since it was last called; at the end, all."""
        rows = map(str, self.rows.values())
        lines = [line for line in rows if is_end or line not in self._shown_rows]
        self._shown_rows.update(lines)
        self._shown_at = time.monotonic()
        print(self.summary, *lines, sep="\n  ", file=self._stream, flush=True)


@contextlib.contextmanager
def _live(rows: Sequence[Row], stream: TextIO) -> Iterator[Tally]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def drawn(tally: Tally) -> Group:
        table = Table("suite", "cell", "done", "mean", "failed", box=None, header_style="bold")
        for row in tally.rows.values():
            mean = "-" if row.mean is None else f"{row.mean:.3f}"
            done = f"{row.num_done}/{row.num_samples}"
            table.add_row(Text(row.suite), Text(row.cell), done, mean, str(row.num_failed or ""))
        bar = ProgressBar(total=max(1, tally.num_samples), completed=tally.num_done, width=60)
        return Group(table, bar, Text(tally.summary), Text(tally.now, style="dim", overflow="ellipsis"))

    class Lively(Tally):
        live: Any = None

        def changed(self) -> None:
            if self.live is not None:
                self.live.update(drawn(self))

    tally = Lively(rows)
    with Live(drawn(tally), console=Console(file=stream), refresh_per_second=4) as live:
        tally.live = live
        yield tally
        live.update(drawn(tally))
