"""Multihop questions by an agent with a local search: the ReAct suite that runs without the internet.

Records are in LongBench's field format (`input`, `context` of numbered passages, `answers`). The agent never
sees the context; it searches, by BM25, the passages of 20 records, its own among them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymspec_agents.errors import ConfigurationError

from ..agents.passages import PassageIndex, passages_of
from ..agents.policy import episode_policy
from ..records import Output, Score
from ..sample import Sample
from ..scorers.qa_f1 import normalized_answer, qa_f1
from ..suite import Asker, Judge, Suite

if TYPE_CHECKING:
    from ..agents.episode import AgentSettings

__all__ = ["ReactMultihop"]

NUM_POOLED = 20  # records whose passages are searched together
NUM_FOUND = 3  # passages of one search
FIRST_SIGHT_TOKENS = 100  # a search's result has about 400

SYSTEM_PROMPT = """\
You answer questions by searching. Take small steps: search for one name of the question, read what comes back, \
then search for the next name that you need. Never repeat a search. As soon as you know the answer, call \
final_answer with the answer alone, in a few words."""


class ReactMultihop(Suite):
    """Multihop questions, answered by searching; token F1 as in LongBench, exact match beside it.

    Options: `agent` (`tool_calling`, `code`), `max_steps`, `max_step_tokens`, `max_seconds`.
    """

    name = "react_multihop"
    title = "Multihop questions by an agent with a local search (F1)"
    metric = "f1"
    is_binary = False
    default_views = ("extract@0.3",)
    source = "a local folder with *.jsonl in LongBench's format (LongBench's own hotpotqa, 2wikimqa, musique fit)"

    def __init__(self) -> None:
        self._options: dict[str, str] = {}
        self._pools: dict[str, PassageIndex] = {}

    def with_options(self, options: Mapping[str, str]) -> ReactMultihop:
        from ..agents.options import AGENT_OPTIONS, check_known

        check_known(self.name, options, AGENT_OPTIONS)
        other = copy.copy(self)
        other._options = dict(options)
        other._settings()
        return other

    def prepare(self) -> None:
        """Raises MissingDependencyError where smolagents or bm25s is not installed."""
        from asymspec_agents.compress.ranking import Bm25Ranker

        self._settings()
        Bm25Ranker()

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        if path is None:
            raise ConfigurationError(
                f"suite {self.name} has no release of its own; name a folder with *.jsonl in LongBench's format "
                "by --data PATH"
            )
        samples: dict[str, Sample] = {}
        for dataset, rows in _datasets(path):
            pools = _pools(dataset, rows)
            self._pools.update(pools)
            for number, row in enumerate(rows):
                sample = self._sample(dataset, number, row)
                if sample.id in samples:
                    raise ConfigurationError(f"{path}: the id {sample.id!r} stands twice")
                samples[sample.id] = sample
        return tuple(samples.values())

    def answer(self, sample: Sample, asker: Asker) -> Output:
        from ..agents.episode import run_episode
        from ..agents.tools import PassageSearchTool

        pool = self._pools.get(str(sample.details.get("pool")))
        if pool is None:
            raise ConfigurationError(f"sample {sample.id!r} is none of those that this suite loaded")
        return run_episode(
            sample.query,
            [PassageSearchTool(pool, NUM_FOUND)],
            asker,
            self._settings(),
            policy=episode_policy(asker.cell.view, first_sight_tokens=FIRST_SIGHT_TOKENS),
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        answer = output.answer.strip()
        golds = [str(gold) for gold in sample.gold]
        wanted = normalized_answer(answer)
        exact = bool(wanted) and any(normalized_answer(gold) == wanted for gold in golds)
        f1 = qa_f1(answer, golds) if answer else 0.0
        return Score(values={"f1": f1, "exact_match": float(exact)})

    def _sample(self, dataset: str, number: int, row: Mapping[str, Any]) -> Sample:
        question = row["input"].strip()
        return Sample(
            suite=self.name,
            id=f"{dataset}/{row.get('_id') or number}",
            messages=({"role": "user", "content": question},),  # type: ignore[arg-type]  # parsed there
            query=question,
            gold=[str(answer) for answer in row["answers"]],
            groups={"dataset": dataset},
            details={"pool": _pool_name(dataset, number)},
        )

    def _settings(self) -> AgentSettings:
        from ..agents.episode import AgentSettings
        from ..agents.options import with_agent_options

        usual = AgentSettings(
            max_steps=4,
            max_step_tokens=150,
            max_seconds=900.0,
            system_prompt=SYSTEM_PROMPT,
            instructions=SYSTEM_PROMPT,
        )
        return with_agent_options(usual, self._options)


def _datasets(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each file's name and records, files in order of their names."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise ConfigurationError(f"data={str(path)!r}: no *.jsonl file there")
    for file in files:
        rows = []
        for number, line in enumerate(file.read_text("utf-8-sig").split("\n"), start=1):
            if line.strip():
                rows.append(_row(file, number, line))
        yield file.stem, rows


def _row(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        match json.loads(line):
            case {"input": str(), "context": str(), "answers": list()} as row:
                return dict(row)
    except ValueError as error:
        raise ConfigurationError(f"{file.name}, line {number}: no JSON ({error})") from error
    raise ConfigurationError(
        f"{file.name}, line {number}: needs input and context (texts) and answers (a list)"
    )


def _pool_name(dataset: str, number: int) -> str:
    return f"{dataset}/{number // NUM_POOLED}"


def _pools(dataset: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, PassageIndex]:
    """The passages of each 20 records that follow one another; the last pool is filled from the first records."""
    pools = {}
    for start in range(0, len(rows), NUM_POOLED):
        own = rows[start : start + NUM_POOLED]
        filling = rows[: min(NUM_POOLED - len(own), start)]
        passages = [text for row in (*own, *filling) for text in passages_of(row["context"])]
        pools[_pool_name(dataset, start)] = PassageIndex(passages)
    return pools
