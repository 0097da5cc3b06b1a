"""How far a slow compressor is, on a terminal: the recorder that `asymspec compress` gives it."""

from __future__ import annotations

import importlib.util
from typing import Any, TextIO

__all__ = ["ProgressBar"]


class ProgressBar:
    """A recorder that shows the `compress_progress` events of one text after the other as a bar.

    The bar goes when a text is done. Nothing is shown where the stream is no terminal.
    """

    captures_content = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty() and importlib.util.find_spec("rich") is not None
        self._display: Any = None

    def record(self, event: str, /, **fields: Any) -> None:
        """Moves the bar."""
        if event != "compress_progress" or not self._is_shown:
            return
        num_done, num_chunks = fields["num_done"], fields["num_chunks"]
        if num_done == num_chunks:
            self.close()
            return
        if self._display is None:
            self._display = _bar(self._stream)
        (task,) = self._display.task_ids
        self._display.update(task, completed=num_done, total=num_chunks)

    def close(self) -> None:
        """Takes the bar away where there is one."""
        if self._display is not None:
            self._display.stop()
            self._display = None


def _bar(stream: TextIO) -> Any:
    from rich import progress
    from rich.console import Console

    display = progress.Progress(
        progress.TextColumn("classifying"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("chunks, left:"),
        progress.TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,  # the result goes there
        redirect_stderr=False,
    )
    display.add_task("", total=None)
    display.start()
    return display
