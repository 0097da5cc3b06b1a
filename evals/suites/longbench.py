"""LongBench's English multi-document questions: hotpotqa, 2wikimqa, musique, 200 each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..reading import located, read_rows
from ..sample import Sample
from ..sources import hub_file
from .loading import with_own_ids
from .passages import PassageSuite

__all__ = ["HotpotQA", "MuSiQue", "TwoWikiMultihopQA"]


class _LongBench(PassageSuite):
    dataset: str
    source = (
        "THUDM/LongBench on the Hugging Face hub, data.zip (MIT; its questions are under the terms of "
        "HotpotQA, CC BY-SA 4.0, 2WikiMultihopQA, Apache-2.0, and MuSiQue, CC BY 4.0)"
    )

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """The set's samples of the official data.zip, or of `path`: that zip, its folder, or its JSON lines.

        Raises ConfigurationError also for records of the same format that are not this set's.
        """
        name = f"{self.dataset}.jsonl"
        path = located(path, name, "data.zip") if path else hub_file("THUDM/LongBench", "data.zip")
        rows = read_rows(path, name if path.suffix.lower() == ".zip" else None)
        for row in rows:
            if row.get("dataset") not in (None, self.dataset):
                raise row.error(f"is of {row.get('dataset')}, not of {self.dataset}")
            if "supporting_passages" in row.fields:  # made from the underlying sets
                raise row.error(
                    "is not of LongBench, which has no supporting_passages; use the suite multihop"
                )
        return with_own_ids([self.sample(row, number) for number, row in enumerate(rows, 1)])


class HotpotQA(_LongBench):
    """LongBench hotpotqa."""

    name = "longbench_hotpotqa"
    title = "LongBench HotpotQA"
    dataset = "hotpotqa"


class TwoWikiMultihopQA(_LongBench):
    """LongBench 2wikimqa."""

    name = "longbench_2wikimqa"
    title = "LongBench 2WikiMultihopQA"
    dataset = "2wikimqa"


class MuSiQue(_LongBench):
    """LongBench musique."""

    name = "longbench_musique"
    title = "LongBench MuSiQue"
    dataset = "musique"
