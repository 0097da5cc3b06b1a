"""A step's counts on their way from the device to the scheduler, on the model runner's output."""

from __future__ import annotations

from typing import Any

import torch

from .compat_worker import AsyncModelRunnerOutput
from .judging import PendingCounts
from .plan import StepCounts

__all__ = ["COUNTS_ATTRIBUTE", "CountsOnTheWay", "OutputWithCounts", "with_counts"]

COUNTS_ATTRIBUTE = "asymspec"


class CountsOnTheWay:
    """A step's counts, whose copy to the host starts at once and waits for nothing queued later.

    `stream` is where vLLM copies a step's tokens; without one the copy is queued behind what is.
    """

    def __init__(self, counts: PendingCounts, stream: Any = None) -> None:
        self._on_device = counts  # kept until the copy is done
        self._host = counts
        self._copied: Any = None
        if counts.counts.is_cuda:
            queue = torch.cuda.current_stream(counts.counts.device)
            stream = queue if stream is None else stream
            stream.wait_stream(queue)
            with torch.cuda.stream(stream):
                self._host = counts.to_host()
            self._copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._copied.record(stream)

    def read(self) -> StepCounts:
        """The counts; waits for them."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._host.read()


class OutputWithCounts(AsyncModelRunnerOutput):  # type: ignore[misc]  # vLLM is untyped here
    """An output still to come, and the counts that go with it."""

    def __init__(self, output: Any, counts: CountsOnTheWay) -> None:
        self._output = output
        self._counts = counts

    def get_output(self) -> Any:
        """The output with its counts; waits for both."""
        output = self._output.get_output()
        setattr(output, COUNTS_ATTRIBUTE, self._counts.read())
        return output


def with_counts(output: Any, counts: CountsOnTheWay | None) -> Any:
    """The runner's output, ready or still to come, with the counts of its step."""
    if counts is None or output is None:
        return output
    if isinstance(output, AsyncModelRunnerOutput):
        return OutputWithCounts(output, counts)
    setattr(output, COUNTS_ATTRIBUTE, counts.read())
    return output
