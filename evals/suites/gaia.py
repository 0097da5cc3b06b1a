"""GAIA: questions for assistants with web access and files, validation split, by level and kind of source.

Source: HF gaia-benchmark/GAIA, 2023/validation, and the system prompt of the paper (Mialon et al. 2023,
figure 2). Its terms: access is granted on the hub, and no row may be reshared. So nothing of it is kept here,
and records of runs hold ids, answers and scores only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, parse_messages

from ..attached import AttachedFiles, inside
from ..reading import Row, read_rows
from ..records import Output, Record, Score
from ..sample import LongPart, Sample
from ..scorers.gaia import final_answer, question_score
from ..sources import hub_file
from ..suite import Asker, Judge, Result, Suite
from .loading import with_own_ids

__all__ = ["Gaia", "Prompt"]

REPOSITORY = "gaia-benchmark/GAIA"
FOLDER = "2023/validation"
TABLES = (
    ("metadata.parquet",),
    ("metadata.level1.parquet", "metadata.level2.parquet", "metadata.level3.parquet"),
    ("metadata.jsonl",),
)
LEVELS = ("1", "2", "3")
TERMS = (
    f"GAIA is gated: accept its terms on https://huggingface.co/datasets/{REPOSITORY} and log in, or pass "
    "the folder of a copy with --data. The terms forbid resharing any of it outside of a private or gated "
    "repository."
)
SYSTEM_PROMPT = (
    "You are a general AI assistant. I will ask you a question. Report your thoughts, and finish your "
    "answer with the following template: FINAL ANSWER: [YOUR FINAL ANSWER]. YOUR FINAL ANSWER should be"
    " a number OR as few words as possible OR a comma separated list of numbers and/or strings. If you "
    "are asked for a number, don't use comma to write your number neither use units such as $ or "
    "percent sign unless specified otherwise. If you are asked for a string, don't use articles, "
    "neither abbreviations (e.g. for cities), and write the digits in plain text unless specified "
    "otherwise. If you are asked for a comma separated list, apply the above rules depending of whether"
    " the element to be put in the list is a number or a string."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question with its attachments, for one call. `trajectory` says how each file was read."""

    messages: tuple[Message, ...]
    long_parts: tuple[LongPart, ...]
    trajectory: tuple[dict[str, Any], ...]


class Gaia(Suite):
    """GAIA's validation questions. Answered in one call here, with attachments as text; agents build on it.

    The default view is the paper's: the verifier reads 2,000 tokens of an attachment, the drafter all of it.
    A sample has `gold`, `files`, groups `level` (1 to 3) and `subset` (`file` where there is an attachment,
    else `web`), and `details` with `file_name`, None where there is none, and `metadata`, the annotator's.
    """

    name = "gaia"
    title = "GAIA (validation)"
    metric = "accuracy"
    is_restricted = True
    default_views = ("truncate@2000",)
    source = f"HF {REPOSITORY}, 2023/validation; gated, its terms forbid resharing"
    max_tokens = 1024

    def __init__(self) -> None:
        self.files = AttachedFiles()

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """The samples of the gated release, or of a copy of it: its root, 2023/validation, or a table in it.

        Tables are metadata.parquet, else those of the three levels, else the older metadata.jsonl. An
        attachment that a copy lacks is told to the model by a note. Raises ConfigurationError, with the terms
        where the release cannot be had.
        """
        tables = _tables_in(path) if path is not None else _tables_of_hub()
        rows = [row for table in tables for row in read_rows(table)]
        if all(row.get("Final answer") == "?" for row in rows):
            raise ConfigurationError(
                f"{tables[0]}: the answers of this split are not public; use 2023/validation"
            )
        return with_own_ids([self._sample(row, tables[0], path is None) for row in rows])

    def prompt(self, sample: Sample, *, sees_images: bool = False) -> Prompt:
        """The sample's messages with its attachments, each a part that the compressed view may shorten.

        With `sees_images` an image is in the full view as itself, and its text is for the compressed one.
        """
        names = [path.name for path in sample.files]
        files = [self.files.read(path.name, _bytes(path)) for path in sample.files]
        if not files and sample.details.get("file_name"):
            names = [str(sample.details["file_name"])]
            files = [self.files.read(names[0], None)]
        if not files:
            return Prompt(sample.messages, sample.long_parts, ())
        *before, question = sample.messages
        parts = [{"type": "text", "text": text} for text in question.texts()]
        first, place = len(parts), len(before)
        content = parts + [file.part(sees_images) for file in files]
        messages = parse_messages([*before, {"role": question.role, "content": content}])
        long_parts = tuple(
            file.long_part(place, first + number, sees_images) for number, file in enumerate(files)
        )
        trajectory = tuple(
            {
                "file": name,
                "full_view": "image" if part.text is not None else "text",
                "is_complete": file.is_complete,
            }
            for name, file, part in zip(names, files, long_parts, strict=True)
        )
        return Prompt(messages, long_parts, trajectory)

    def answer(self, sample: Sample, asker: Asker) -> Output:
        """One call with the attachments; the output's answer is what follows FINAL ANSWER."""
        prompt = self.prompt(sample, sees_images=asker.sees_images)
        response = asker.ask(
            prompt.messages,
            query=sample.query,
            long_parts=prompt.long_parts,
            max_tokens=sample.max_tokens,
            stop=sample.stop,
        )
        return asker.output(final_answer(response.content), trajectory=prompt.trajectory)

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """1 where question_scorer accepts the answer; `kind` is how the gold answer was compared."""
        answer = final_answer(output.answer)
        verdict = question_score(answer, str(sample.gold))
        return Score(values={self.metric: float(verdict.is_correct)}, details={"kind": verdict.kind})

    def figure(self, records: Sequence[Record]) -> Result:
        """Accuracy over all questions; `parts` are the levels' and subsets'."""
        parts: dict[str, list[float]] = {}
        for record in records:
            for name in ("level", "subset"):
                if name in record.groups:
                    parts.setdefault(f"{name} {record.groups[name]}", []).append(self.value(record))
        means = {name: sum(parts[name]) / len(parts[name]) for name in sorted(parts)}
        return Result(super().figure(records).value, means)

    def _sample(self, row: Row, table: Path, is_hub: bool) -> Sample:
        question, level = row.text("Question"), row.text("Level")
        if level not in LEVELS:
            raise row.error(f"has Level={level!r}, which is none of {', '.join(LEVELS)}")
        file_name = str(row.get("file_name") or "").strip()
        file = _attachment(file_name, row, table, is_hub) if file_name else None
        metadata = row.get("Annotator Metadata")
        return Sample(
            suite=self.name,
            id=row.text("task_id"),
            messages=parse_messages(
                [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]
            ),
            query=question,
            gold=row.text("Final answer"),
            max_tokens=self.max_tokens,
            groups={"level": level, "subset": "file" if file_name else "web"},
            details={
                "file_name": file_name or None,
                "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
            },
            files=() if file is None else (file,),
        )


def _tables_of_hub() -> list[Path]:
    try:
        return [hub_file(REPOSITORY, f"{FOLDER}/{TABLES[0][0]}")]
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} {TERMS}") from error


def _tables_in(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ConfigurationError(f"{path} does not exist. {TERMS}")
    for folder in (path / FOLDER, path / "validation", path):
        for names in TABLES:
            found = [folder / name for name in names if (folder / name).is_file()]
            if len(found) == len(names):
                return found
    raise ConfigurationError(f"{path} has neither {FOLDER} nor a metadata table of GAIA in it. {TERMS}")


def _attachment(name: str, row: Row, table: Path, is_hub: bool) -> Path | None:
    if is_hub:
        return hub_file(REPOSITORY, str(row.get("file_path") or f"{FOLDER}/{name}"))
    stated = str(row.get("file_path") or "")  # from the release's root
    return inside(table.parent, name) or inside(table.parent.parent.parent, stated)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
