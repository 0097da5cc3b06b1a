"""What `run` tells: where it starts from, what failed, where the run is."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ..plan import Plan
from ..progress import Row
from ..record_log import Entry
from ..run_folder import RunFolder
from ..runner import Job
from .asking import Asked

__all__ = ["rows_of", "tell_end", "tell_start"]


def rows_of(jobs: Iterable[Job], folder: RunFolder, redo: Callable[[Entry], bool]) -> list[Row]:
    """Each cell, with what is recorded of it and stays."""
    rows = []
    for job in jobs:
        for cell in job.cells:
            row = Row(job.suite.name, str(cell), len(job.samples))
            for sample in job.samples:
                entry = folder.entries.get((job.suite.name, sample.id, str(cell)))
                if entry is not None and not redo(entry):
                    row.num_done += 1
                    row.num_failed += entry.failed_at is not None
                    row.sum_values += entry.values[job.suite.metric] if entry.values else 0.0
            rows.append(row)
    return rows


def tell_start(
    asked: Sequence[Asked], jobs: Sequence[Job], plan: Plan, num_samples: int | str | None
) -> None:
    """Tells where a run asks more than its command line names, or less, and goes on with other code."""
    revisions = list(dict.fromkeys(str(start.get("revision")) for start in plan.provenance))
    if len(revisions) > 1:
        print(f"note: the run was made with several revisions: {', '.join(revisions)}", file=sys.stderr)
    for part, job in zip(asked, jobs, strict=True):
        if isinstance(num_samples, int) and len(part.samples) < num_samples:
            print(
                f"note: {num_samples} samples are asked of {job.suite.name}, "
                f"which has {len(part.samples)} to choose from",
                file=sys.stderr,
            )
        if (len(job.samples), len(job.cells)) != (len(part.samples), len(part.cells)):
            print(
                f"note: with what the folder asks already, that is {len(job.samples)} samples and "
                f"{len(job.cells)} cells of {job.suite.name}",
                file=sys.stderr,
            )


def tell_end(folder: RunFolder) -> int:
    """Tells the failures, and where the run is. Returns the exit code."""
    failed = {key: entry for key, entry in folder.entries.items() if entry.failed_at is not None}
    groups = Counter((suite, cell, entry.failed_at) for (suite, _, cell), entry in failed.items())
    for (suite, cell, stage), count in sorted(groups.items()):
        key, entry = next(
            (key, entry)
            for key, entry in failed.items()
            if (key[0], key[2], entry.failed_at) == (suite, cell, stage)
        )
        failure = folder.read(entry).failure
        what = "without an answer" if stage == "answer" else "without a score"
        why = f"{failure.error_type}: {failure.message}" if failure else ""
        print(f"{suite} · {cell}: {count} {what}, such as {key[1]}: {why}", file=sys.stderr)
    place = shlex.quote(str(folder.path))
    print(f"{len(folder.entries):,} records in {folder.path}; report: python -m evals report {place}")
    return 1 if failed else 0
