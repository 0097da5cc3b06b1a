"""Tells a server that is gone from an arm that fails, so that an outage isn't recorded as wrong answers."""

from __future__ import annotations

from asymspec_agents.errors import (
    AsymSpecError,
    BackendError,
    ConnectionFailedError,
    NotAsymSpecError,
    ResponseTimeoutError,
    ServerError,
)

from .records import Record

__all__ = ["OutageError", "Outages", "is_outage"]

_KINDS = (ConnectionFailedError, ResponseTimeoutError, NotAsymSpecError, ConnectionError)

# Statuses about server and key as a whole. 400 and 500 may come of one request, and are that arm's failure.
_STATUSES = frozenset({401, 403, 404, 429, 502, 503, 504})


class OutageError(AsymSpecError):
    """A server failed several times in a row; the run stopped, to be started again when it is back."""


def is_outage(error: BaseException) -> bool:
    """Whether an error, or one that caused it, is of a server as a whole."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, _KINDS) or (isinstance(cause, ServerError) and cause.status in _STATUSES):
            return True
        if type(cause) is BackendError:  # an answer in no known form: a proxy's page, say
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class Outages:
    """Holds failures that look like an outage until it is known what they were.

    Once the cell is answered again, the server was there and the failures are the arm's: they are recorded.
    After `limit` in a row, overall or of one cell, or at the run's end, nothing of them is: OutageError. With
    limit 0 each is recorded at once. A judge's outages are counted alike, but held by nobody: their outputs
    are recorded.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_in_row = 0
        self._held: dict[str, list[Record]] = {}
        self._num_of_judge = 0

    def failed(self, record: Record) -> tuple[Record, ...]:
        """Takes a record that failed by an outage; returns what is to be recorded now."""
        if not self._limit:
            return (record,)
        held = self._held.setdefault(record.cell, [])
        held.append(record)
        self._num_in_row += 1
        if self._num_in_row >= self._limit or len(held) >= self._limit:
            reason = record.failure.message if record.failure else ""
            raise OutageError(
                f"{record.cell}: {reason}. That was failure {self._limit} of a server in a row, and none "
                "of them is recorded; start the run again once it answers. Where a sample itself brings the "
                "server down, --stop-after-outages 0 records it as failed"
            )
        return ()

    def answered(self, cell: str) -> tuple[Record, ...]:
        """Takes note that a server answered, or refused, a cell; returns what is to be recorded now."""
        self._num_in_row = 0
        return tuple(self._held.pop(cell, ()))

    def end(self) -> None:
        """Raises OutageError where the run ends with failures of which nobody knows what they were."""
        held = [record for records in self._held.values() for record in records]
        if held:
            failure = held[-1].failure
            raise OutageError(
                f"{held[-1].cell}: {failure.message if failure else ''}. {len(held)} answers at the end of "
                "the run failed as they do when a server is gone, and none of them is recorded; start the "
                "run again once it answers. Where a sample itself brings the server down, "
                "--stop-after-outages 0 records it as failed"
            )

    def judged(self, message: str | None) -> None:
        """Takes note of a grading: None where the judge answered, else why it was out of reach."""
        self._num_of_judge = 0 if message is None else self._num_of_judge + 1
        if self._limit and self._num_of_judge >= self._limit:
            raise OutageError(
                f"the judge: {message}. That was its failure {self._limit} in a row; the answers are "
                "recorded without a score. Start the run again with --retry-failed once it answers"
            )
