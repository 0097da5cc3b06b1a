"""Multi-hop questions in LongBench's record format that are not LongBench: other questions, shorter passages.

Prompt and scorer are LongBench's; the figure is no LongBench score and is never reported as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asymspec_agents import config
from asymspec_agents.errors import ConfigurationError

from ..reading import read_rows
from ..records import Record
from ..sample import Sample
from ..suite import Result
from .loading import with_own_ids
from .passages import PassageSuite

__all__ = ["Multihop"]

_DATASETS = ("musique", "hotpotqa", "2wikimqa")


class Multihop(PassageSuite):
    """MuSiQue, HotpotQA and 2WikiMultihopQA questions of a local folder; the figure has a part for each."""

    name = "multihop"
    title = "Multi-hop QA (not LongBench)"
    source = (
        "local: a folder with musique.jsonl, hotpotqa.jsonl or 2wikimqa.jsonl, by default `multihop` in "
        "ASYMSPEC_DATA (MuSiQue CC BY 4.0, HotpotQA CC BY-SA 4.0, 2WikiMultihopQA Apache-2.0)"
    )

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """All samples of the folder, dataset by dataset, or those of one file.

        `details` hold the numbers, from 1, of the passages that the answer rests on, where they are known.
        """
        samples = []
        for file in _files(path):
            for number, row in enumerate(read_rows(file), 1):
                dataset = str(row.get("dataset") or file.stem)
                samples.append(
                    self.sample(
                        row,
                        number,
                        prefix=f"{dataset}/",
                        groups={"dataset": dataset},
                        details={"supporting_passages": row.get("supporting_passages")},
                    )
                )
        return with_own_ids(samples)

    def figure(self, records: Sequence[Record]) -> Result:
        return Result(self._mean(records), self._parts(records, "dataset", _DATASETS))


def _files(path: Path | None) -> list[Path]:
    if path is None:
        data = config.from_env().data_dir
        path = data / "multihop" if data else None
    if path is None:
        raise ConfigurationError("multihop has no release to fetch: pass --data FOLDER, or set ASYMSPEC_DATA")
    if path.is_file():
        return [path]
    for folder in (path, path / "multihop"):
        found = [folder / f"{name}.jsonl" for name in _DATASETS if (folder / f"{name}.jsonl").is_file()]
        if found:
            return found
    raise ConfigurationError(
        f"--data {path} holds none of {', '.join(f'{name}.jsonl' for name in _DATASETS)}"
    )
