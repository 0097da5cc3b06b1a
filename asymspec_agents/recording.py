"""The small protocol through which every layer reports its decisions to `asymspec_agents.trace`."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["NULL_RECORDER", "Recorder"]


class Recorder(Protocol):
    """Takes one event per decision.

    Invariants: `record` is thread-safe, returns quickly and never raises into its caller. Fields are plain
    JSON values. Prompt and answer texts are passed only when `captures_content` is true.
    """

    @property
    def captures_content(self) -> bool: ...

    def record(self, event: str, /, **fields: Any) -> None: ...


class _NullRecorder:
    captures_content = False

    def record(self, event: str, /, **fields: Any) -> None:
        pass


NULL_RECORDER: Recorder = _NullRecorder()
