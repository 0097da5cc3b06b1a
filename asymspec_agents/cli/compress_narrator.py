"""What a compressor by a model reports, for who waits for it: how far it is, and what it did not do."""

from __future__ import annotations

import importlib.util
from typing import Any, TextIO

__all__ = ["Narrator"]


class Narrator:
    """A recorder that shows `compress_progress` as a bar and `compress_fallback` as a line.

    The bar goes when a text is done; there is none where the stream is no terminal.
    """

    captures_content = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_bar = stream.isatty() and importlib.util.find_spec("rich") is not None
        self._display: Any = None

    def record(self, event: str, /, **fields: Any) -> None:
        """Shows the event, if it is one of the two."""
        if event == "compress_fallback":
            needed, target = fields["protected_tokens"], fields["target_tokens"]
            why = (
                f"protected spans (numbers, ids, paths …) alone take {needed:,} tokens of {target:,}"
                if needed > target
                else f"{target:,} tokens have no room for a word of every part"
            )
            print(f"note: {why}: not by LLMLingua-2", file=self._stream)
        elif event == "compress_progress" and self._has_bar:
            self._show(fields["num_done"], fields["num_chunks"])

    def _show(self, num_done: int, num_chunks: int) -> None:
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
