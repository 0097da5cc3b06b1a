"""What the demo shows while an agent works: every turn's reading and the emitted text by origin."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ..backends import AnyRequest, Backend, Capabilities, ChatDelta, Origin, Segment
from ..trace import MemoryRecorder, ResponseEvent
from .demo_costs import recorded_cost, reported_cost

__all__ = ["Narrated", "Terminal", "Totals", "open_terminal"]

STYLES: dict[Origin, str] = {"accepted": "32", "fused": "1;35", "bonus": "36", "plain": "0"}


@dataclass(slots=True)
class Totals:
    """One arm's sums over all of its LLM calls: positions each model computed, and tokens written."""

    num_turns: int = 0
    verifier_tokens: int = 0
    drafter_tokens: int = 0
    answer_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0


class Terminal:
    """Prints text as it comes; colours and the waiting line only where they can be seen."""

    def __init__(self, has_colours: bool) -> None:
        self.has_colours = has_colours

    def line(self, text: str = "") -> None:
        """One line."""
        print(text, flush=True)

    def segment(self, segment: Segment) -> None:
        """A piece of emitted text in the colour of its origin."""
        text = "".join(
            c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in segment.text
        )
        if self.has_colours:
            text = f"\x1b[{STYLES[segment.origin]}m{text}\x1b[0m"
        print(text, end="", flush=True)

    def legend(self) -> None:
        """What the colours mean."""
        if self.has_colours:
            words = ", ".join(f"\x1b[{STYLES[o]}m{o}\x1b[0m" for o in ("accepted", "fused", "bonus"))
            self.line(f"Emitted text by origin: {words}; plain text where nothing is drafted.")

    def waiting(self, seconds: float) -> None:
        """Overwrites the current line with how long the models have been reading."""
        if self.has_colours:
            print(f"\r  reading … {seconds:3.0f} s", end="", flush=True)

    def waited(self) -> None:
        """Clears the waiting line."""
        if self.has_colours:
            print("\r\x1b[2K", end="", flush=True)


def open_terminal() -> Terminal:
    """The process's terminal; plain text where standard output is none."""
    return Terminal(sys.stdout.isatty())


class Narrated(Backend):
    """A backend that shows each call of the one it wraps while it answers, and adds up its costs.

    `arm` is the wrapped backend's; `recorder` the one its engine records to, None for a server, whose own
    report says what a call cost.
    """

    def __init__(self, inner: Backend, arm: str, terminal: Terminal, recorder: MemoryRecorder | None) -> None:
        self._inner = inner
        self._arm = arm
        self._recorder = recorder
        self._terminal = terminal
        self.totals = Totals()

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        started = time.monotonic()
        is_waiting = threading.Event()
        clock = threading.Thread(target=self._clock, args=(started, is_waiting), daemon=True)
        clock.start()
        try:
            for delta in self._inner.stream(request, abort=abort):
                if not is_waiting.is_set():
                    is_waiting.set()
                    clock.join()
                    self._terminal.waited()
                for segment in delta.segments if self._recorder is not None else _plain_segments(delta):
                    self._terminal.segment(segment)
                if delta.finish_reason is not None:
                    self._turn(delta, time.monotonic() - started)
                yield delta
        finally:
            is_waiting.set()

    def _clock(self, started: float, is_waiting: threading.Event) -> None:
        while not is_waiting.wait(0.5):
            self._terminal.waiting(time.monotonic() - started)

    def _turn(self, delta: ChatDelta, seconds: float) -> None:
        usage, report, totals = delta.usage, delta.report, self.totals
        if usage is None or report is None:
            return
        if self._recorder is None:
            cost = reported_cost(self._arm, usage, report)
        else:
            response = next(e for e in reversed(self._recorder.events) if isinstance(e, ResponseEvent))
            cost = recorded_cost(self._arm, usage, report, response)
        totals.num_turns += 1
        totals.verifier_tokens += cost.verifier_ran
        totals.drafter_tokens += cost.drafter_ran
        totals.answer_tokens += usage.completion_tokens
        totals.drafted += report.drafted
        totals.accepted += report.accepted
        totals.seconds += seconds
        models = (
            ("verifier", cost.verifier_read, cost.verifier_ran),
            ("drafter", cost.drafter_read, cost.drafter_ran),
        )
        parts = [f"{name} read {read:,} tokens ({ran:,} computed)" for name, read, ran in models if read]
        if report.drafted:
            parts.append(f"{report.accepted}/{report.drafted} drafts accepted, {report.fused} fused")
        if usage.completion_tokens > 1:
            self._terminal.line()
        self._terminal.line(f"  call {totals.num_turns}: {'; '.join(parts)}; {seconds:.1f} s")


def _plain_segments(delta: ChatDelta) -> tuple[Segment, ...]:
    """A server's answer, which comes without origins: its text, and the tool calls it read out of it."""
    calls = (call.function for call in delta.tool_calls)
    texts = [delta.content, *(f"{call.name}({call.arguments})" for call in calls if call is not None)]
    return tuple(Segment(text, "plain") for text in texts if text)
