"""`asymspec trace show --follow`: calls as they end, and how far the one being decoded is."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from .table import printable

if TYPE_CHECKING:
    from ..trace import Event
    from ..trace.story import Call

__all__ = ["follow"]

POLL_S = 0.2


def follow(path: str, *, max_polls: int | None = None) -> int:
    """Prints until it is interrupted; a file that is replaced (as by rotation) is begun anew."""
    from ..trace.following import LiveCalls

    live, is_terminal = LiveCalls(), sys.stdout.isatty()
    for events in _new_events(Path(path), max_polls):
        for call in live.take(events):
            _print(_line(call), is_terminal, is_final=True)
        if is_terminal:
            status = " | ".join(_line(call) for call in live.open)
            _print(status[:160], is_terminal, is_final=False)
    return 0


def _line(call: Call) -> str:
    metrics = call.metrics
    num_tokens = metrics.num_response_tokens or metrics.num_emitted
    seconds = float(metrics.elapsed_s) or sum(block.elapsed_s for block in call.blocks)
    rate = f", {num_tokens / seconds:.1f} tokens/s" if seconds else ""
    accepted = f", {metrics.acceptance_rate:.0%} accepted" if metrics.acceptance_rate is not None else ""
    said = printable(f"#{call.number} {call.arm or 'call'} {call.ending or '…'}")
    return f"{said}: {num_tokens:,} tokens{rate}{accepted}"


def _print(text: str, is_terminal: bool, *, is_final: bool) -> None:
    if is_terminal:
        print(f"\r\x1b[2K{text}", end="\n" if is_final else "", flush=True)
    else:
        print(text, flush=True)


def _new_events(path: Path, max_polls: int | None) -> Iterator[list[Event]]:
    from ..trace import parse_event

    file: BinaryIO = open(path, "rb")  # noqa: SIM115  (closed below, and opened anew where it was replaced)
    rest = b""
    was_replaced = False
    polls = 0
    try:
        while max_polls is None or polls < max_polls:
            polls += 1
            data = rest + file.read()
            *lines, rest = data.split(b"\n")
            events = []
            for line in lines:
                try:
                    events.append(parse_event(json.loads(line)))
                except (ValueError, RecursionError):  # no event: `trace show` says which lines are none
                    continue
            yield events
            if lines:
                continue
            if was_replaced:  # and read to its end since then
                file.close()
                file, rest, was_replaced = open(path, "rb"), b"", False  # noqa: SIM115
                continue
            was_replaced = _is_another(path, file)
            if not was_replaced:
                time.sleep(POLL_S)
    finally:
        file.close()


def _is_another(path: Path, file: BinaryIO) -> bool:
    """Whether the path is another file by now, or the file was emptied and begun anew."""
    try:
        found = path.stat()
    except FileNotFoundError:  # between being put aside and being begun anew
        return False
    return found.st_ino != os.fstat(file.fileno()).st_ino or found.st_size < file.tell()
