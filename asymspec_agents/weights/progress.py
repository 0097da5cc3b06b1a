"""Progress of a pull: the event every step reports, and its display on a terminal or in a log."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TextIO

__all__ = ["Progress", "ProgressCallback", "show_progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage of preparing `name` is. `waiting`: another process is preparing the same model."""

    name: str
    stage: Literal["waiting", "downloading", "checking", "converting"]
    done_bytes: int
    total_bytes: int


ProgressCallback = Callable[[Progress], None]


@contextlib.contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[ProgressCallback]:
    """A callback showing progress on `stream` (standard error): bars on a terminal, else a few lines."""
    stream = stream or sys.stderr
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        with _bars(stream) as report:
            yield report
    else:
        yield _Lines(stream)


@contextlib.contextmanager
def _bars(stream: TextIO) -> Iterator[ProgressCallback]:
    from rich import progress as rich_progress
    from rich.console import Console

    tasks: dict[tuple[str, str], rich_progress.TaskID] = {}
    with rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
        console=Console(file=stream),
    ) as display:

        def report(event: Progress) -> None:
            key = (event.name, event.stage)
            if key not in tasks:
                tasks[key] = display.add_task(f"{event.stage} {event.name}", total=event.total_bytes)
            display.update(tasks[key], completed=event.done_bytes)

        yield report


class _Lines:
    """Writes a line when a stage begins and at each further quarter of it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: dict[tuple[str, str], int] = {}

    def __call__(self, event: Progress) -> None:
        quarter = 4 * event.done_bytes // event.total_bytes if event.total_bytes else 0
        if quarter <= self._shown.get((event.name, event.stage), -1):
            return
        self._shown[event.name, event.stage] = quarter
        amount = (
            f": {event.done_bytes / 1e6:,.0f} of {event.total_bytes / 1e6:,.0f} MB"
            if event.total_bytes
            else ""
        )
        print(f"{event.stage} {event.name}{amount}", file=self._stream, flush=True)
