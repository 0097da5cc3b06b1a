"""Multihop questions by an agent with a local search: the ReAct suite that runs without the internet.

Questions and answers are those of the suite `multihop`. The agent never sees a record's passages as such: it
searches, by BM25, the passages of 20 records, its own among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages

from ..agents.passages import PassageIndex, passages_of
from ..agents.policy import episode_policy
from ..agents.settings import AgentSettings
from ..records import Output, Record, Score
from ..sample import Sample
from ..scorers.qa_f1 import best_f1, normalized
from ..suite import Asker, Judge, Result, Suite
from .multihop import Multihop

__all__ = ["ReactMultihop"]

NUM_POOLED = 20  # records whose passages are searched together
NUM_FOUND = 3  # passages of one search
FIRST_SIGHT_TOKENS = 100  # a search's result has about 400

SYSTEM_PROMPT = """\
You answer questions with tools. Every reply is one tool call and nothing else. First call search with one \
name of the question. Read the passages, then search for the next name that you need; never repeat a \
search. When you know the answer, call final_answer with the answer alone, in a few words: a name, a date, \
yes or no."""


class ReactMultihop(Suite):
    """Multihop questions, answered by searching; token F1 as in `multihop`, exact match beside it.

    `agent` is `tool_calling` or `code`; limits as in AgentSettings, as texts. With `forces_calls`, the
    default, every step is one call: left free, models of 1.5B parameters write prose, or many calls at once.
    It needs a backend that knows `tool_choice`. A search returns three passages in full, and the verifier
    reads them compressed from the moment they appear: an episode has few turns, so none is kept verbatim.
    """

    has_tools = True
    name = "react_multihop"
    title = "Multi-hop QA by an agent with a local search (not LongBench)"
    metric = "f1"
    is_binary = False
    source = Multihop.source

    def __init__(
        self,
        agent: str = "tool_calling",
        max_steps: str = "4",
        max_step_tokens: str = "150",
        max_seconds: str = "900",
        forces_calls: str = "true",
    ) -> None:
        self._settings = AgentSettings.of_texts(
            agent=agent,
            max_steps=max_steps,
            max_step_tokens=max_step_tokens,
            max_seconds=max_seconds,
            forces_calls=forces_calls,
            system_prompt=SYSTEM_PROMPT,
            instructions=SYSTEM_PROMPT,
        )
        self._inner = Multihop()
        self._pools: dict[str, PassageIndex] = {}

    def prepare(self) -> None:
        """Raises MissingDependencyError where smolagents or bm25s is not installed."""
        import smolagents_asymspec  # noqa: F401 - says what is missing
        from asymspec_agents.compress.ranking import Bm25Ranker

        Bm25Ranker()

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        datasets: dict[str, list[Sample]] = {}
        for sample in self._inner.load(path):
            datasets.setdefault(sample.groups["dataset"], []).append(sample)
        return tuple(made for dataset, samples in datasets.items() for made in self._pooled(dataset, samples))

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
            self._settings,
            policy=episode_policy(asker.cell.view, first_sight_tokens=FIRST_SIGHT_TOKENS),
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """`f1` by LongBench's rules; `exact_match`: equal to a gold answer once both are normalised."""
        answer = normalized(output.answer)
        is_exact = bool(answer) and any(normalized(gold) == answer for gold in sample.gold)
        return Score(
            values={"f1": best_f1(output.answer, sample.gold), "exact_match": float(is_exact)},
        )

    def figure(self, records: Sequence[Record]) -> Result:
        """As in `multihop`: the mean F1 times 100, with a part for each dataset."""
        return self._inner.figure(records)

    def _pooled(self, dataset: str, samples: Sequence[Sample]) -> list[Sample]:
        """The questions alone; each 20, in order, share a pool, the last one filled from the first ones."""
        made = []
        for start in range(0, len(samples), NUM_POOLED):
            own = samples[start : start + NUM_POOLED]
            filling = samples[: min(NUM_POOLED - len(own), start)]
            name = f"{dataset}/{start // NUM_POOLED}"
            self._pools[name] = PassageIndex(
                [text for sample in (*own, *filling) for text in passages_of(_context(sample))]
            )
            made += [
                replace(
                    sample,
                    suite=self.name,
                    messages=parse_messages([{"role": "user", "content": sample.query}]),
                    long_parts=(),
                    details={**sample.details, "pool": name},
                )
                for sample in own
            ]
        return made


def _context(sample: Sample) -> str:
    """The passages, which are the prompt's long part."""
    long = sample.long_parts[0]
    part = sample.messages[long.message].content[long.part or 0]  # type: ignore[index]
    return getattr(part, "text", None) or ""
