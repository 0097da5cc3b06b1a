"""What a check is, what it finds, and how checks are run: one after another, within one time limit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from ..errors import AsymSpecError

__all__ = ["Check", "Finding", "Status", "run_checks"]

Status = Literal["ok", "info", "warn", "FAIL"]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis. `fix` is the command or setting that mends what is wrong."""

    name: str
    status: Status
    found: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """A function that looks at a subject; an empty result means that there was nothing to check.

    `needs` names the checks without which this one can't succeed: it is left out where one of them failed.
    """

    name: str
    run: Callable[[S], Iterable[Finding]]
    needs: tuple[str, ...] = ()


def run_checks(checks: Sequence[Check[S]], subject: S, timeout_s: float) -> Iterator[Finding]:
    """What the checks find, as they find it; whatever a check does, the whole takes `timeout_s` seconds.

    An exception in a check is a finding too. The last finding names the checks that were left out, if any.
    """
    end = time.monotonic() + timeout_s
    unmet: set[str] = set()
    left_out: list[str] = []
    for check in checks:
        if unmet & set(check.needs):
            findings: Sequence[Finding] = ()
            left_out.append(check.name)
            unmet.add(check.name)
        else:
            findings = _within(end - time.monotonic(), check, subject, timeout_s)
        yield from findings
        if any(finding.status == "FAIL" for finding in findings):
            unmet.add(check.name)
        if time.monotonic() >= end:
            left_out += [later.name for later in checks[checks.index(check) + 1 :]]
            break
    if left_out:
        yield Finding("not checked", "info", f"{', '.join(left_out)}; first mend what failed")


def _within(seconds: float, check: Check[S], subject: S, timeout_s: float) -> Sequence[Finding]:
    """The check's findings. It runs in a thread that is left behind if it doesn't end in time."""
    results: queue.SimpleQueue[Sequence[Finding]] = queue.SimpleQueue()
    work = threading.Thread(
        target=lambda: results.put(_findings(check, subject)), name=f"doctor-{check.name}", daemon=True
    )
    work.start()
    try:
        return results.get(timeout=max(seconds, 0.01))
    except queue.Empty:
        text = f"no result within the {timeout_s:g} s that all checks have together"
        fix = f"give it more time with --timeout {2 * timeout_s:g}"
        return (Finding(check.name, "FAIL", text, fix),)


def _findings(check: Check[S], subject: S) -> Sequence[Finding]:
    try:
        return tuple(check.run(subject))
    except AsymSpecError as error:
        return (Finding(check.name, "FAIL", str(error), "do what the message says, then try again"),)
    except Exception as error:  # a defect of the check must not hide what the others find
        text = f"the check itself failed: {type(error).__name__}: {error}"
        return (Finding(check.name, "FAIL", text, "report this line: it is a defect of asymspec doctor"),)
