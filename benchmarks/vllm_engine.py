"""One engine of `benchmarks/vllm.py`: `python -m benchmarks.vllm_engine JOB` measures its arms.

JOB is a JSON file: plan, engine, folders and the file for the result. The engine, its scheduler and worker
are in this process, so a step of theirs can be timed, and within it the forwards.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asymspec_agents.protocol import AsymSpecOptions

from .vllm_cells import ARMS, ARRIVAL_OUTPUT_TOKENS, PLANS, Arm, EngineName, Plan
from .vllm_clock import Coins, ForwardClock
from .vllm_models import Texts, texts

__all__ = ["NUM_DRAFT_TOKENS", "main"]

NUM_DRAFT_TOKENS = 2
MAX_NUM_SEQS = 8


@dataclass(slots=True)
class Request:
    """A request on its way: when it came, and when which tokens did (after each of its steps)."""

    added_s: float
    tokens: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    num_cached: int = 0
    report: dict[str, Any] | None = None
    finished: bool = False

    @property
    def first_s(self) -> float:
        """Seconds to the first token."""
        return self.times_s[0] - self.added_s


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the engine: when it ended, its seconds, and those of the forwards in it."""

    ended_s: float
    seconds: float
    forwards_s: float


class MeasuredEngine:
    """A vLLM engine, stepped by hand."""

    def __init__(self, plan: Plan, engine: EngineName, folders: tuple[str, str], has_weights: bool) -> None:
        from vllm import LLM

        started = time.perf_counter()
        self._llm = LLM(
            model=folders[0],
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=plan.max_len,
            max_num_seqs=MAX_NUM_SEQS,
            max_num_batched_tokens=plan.max_num_batched_tokens,
            kv_cache_memory_bytes=plan.kv_bytes,
            enable_prefix_caching=True,
            skip_tokenizer_init=True,
            load_format="auto" if has_weights else "dummy",
            disable_log_stats=True,
            seed=0,
            **_speculation(plan, engine, folders[1]),
        )
        self.start_s = time.perf_counter() - started
        self._engine = self._llm.llm_engine
        self.core = self._engine.engine_core.engine_core
        self._clock = ForwardClock(
            _models(self.core.model_executor.driver_worker.worker.model_runner, engine)
        )
        if plan.acceptance is not None:
            Coins(plan.acceptance)
        self._num_requests = 0
        self._requests: dict[str, Request] = {}
        self.steps: list[Step] = []

    def add(self, arm: Arm, full: Sequence[int], compressed: Sequence[int], max_tokens: int) -> Request:
        """A request of that arm."""
        from vllm import SamplingParams

        from vllm_asymspec.offline import sampling_params

        fields: dict[str, Any] = {"max_tokens": max_tokens, "ignore_eos": True, "detokenize": False}
        if arm.reads_both:
            options = AsymSpecOptions(num_draft_tokens=NUM_DRAFT_TOKENS)
            params = sampling_params(full, options, **fields)
        else:
            params = SamplingParams(temperature=0.0, **fields)
        prompt = full if arm.prompt == "full" else compressed
        self._num_requests += 1
        name = f"request-{self._num_requests}"
        request = self._requests[name] = Request(time.perf_counter())
        self._engine.add_request(name, {"prompt_token_ids": list(prompt)}, params)
        return request

    def step(self) -> None:
        """One step."""
        self._clock.seconds = 0.0
        started = time.perf_counter()
        outputs = self._engine.step()
        now = time.perf_counter()
        self.steps.append(Step(now, now - started, self._clock.seconds))
        for output in outputs:
            request, tokens = self._requests[output.request_id], list(output.outputs[0].token_ids)
            if len(tokens) > len(request.tokens):
                request.times_s.append(now)
                request.counts.append(len(tokens) - len(request.tokens))
                request.tokens = tokens
            if output.finished:
                request.num_cached = output.num_cached_tokens or 0
                request.report = (output.kv_transfer_params or {}).get("asymspec")
                request.finished = True

    def finish(self, requests: Sequence[Request]) -> None:
        """Steps until these are answered."""
        while not all(request.finished for request in requests):
            self.step()

    def abort_all(self) -> None:
        """Ends what still runs."""
        running = [name for name, request in self._requests.items() if not request.finished]
        self._engine.abort_request(running)
        while self._engine.has_unfinished_requests():
            self._engine.step()

    def forget(self) -> None:
        """Empties all caches."""
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM did not empty its prefix cache")
        self.steps.clear()


def _speculation(plan: Plan, engine: EngineName, drafter: str) -> dict[str, Any]:
    """The engine's arguments beside the model's."""
    if engine == "plain":
        return {}
    from vllm_asymspec.offline import engine_arguments

    ours = engine_arguments(
        drafter, num_draft_tokens=NUM_DRAFT_TOKENS, settings={"pool_bytes": plan.pool_bytes}
    )
    return ours if engine == "asymspec" else {"speculative_config": ours["speculative_config"]}


def _models(runner: Any, engine: EngineName) -> list[Any]:
    """The models that the runner calls."""
    if engine == "plain":
        return [runner.model]
    return [runner.model, runner._drafting.drafter.model if engine == "asymspec" else runner.drafter.model]


class Prompts:
    """Views of any length from one long text, each from another place of it."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._start = 0

    def full(self, num_tokens: int) -> list[int]:
        """A full view."""
        num_text = num_tokens - len(self._texts.question)
        if self._start + num_text > len(self._texts.text):
            self._start = 0
        start, self._start = self._start, self._start + num_text
        return self._texts.text[start : start + num_text] + self._texts.question

    def restart(self) -> None:
        """From the text's beginning again, so that every arm gets the same."""
        self._start = 0

    def text(self, num_tokens: int) -> list[int]:
        """The text's beginning."""
        return self._texts.text[:num_tokens]


def _figures(arm: Arm, requests: Sequence[Request], steps: Sequence[Step]) -> dict[str, Any]:
    """The figures of requests that came together.

    Decoding is measured from the last request's first token to the first request's end, when all decode.
    """
    begin = max(request.times_s[0] for request in requests)
    end = min(request.times_s[-1] for request in requests)
    decoding = [step for step in steps if begin < step.ended_s <= end]
    emitted = [
        count
        for request in requests
        for count, time_s in zip(request.counts, request.times_s, strict=True)
        if begin < time_s <= end
    ]
    step_s, forwards_s = (sum(getattr(s, name) for s in decoding) for name in ("seconds", "forwards_s"))
    return {
        "arm": arm.name,
        "time_to_first_token_s": sum(request.first_s for request in requests) / len(requests),
        "last_first_token_s": max(request.first_s for request in requests),
        "total_s": max(request.times_s[-1] - request.added_s for request in requests),
        "decode_tokens_per_s": sum(emitted) / (end - begin) if decoding else None,
        "num_decode_steps": len(decoding),
        "step_s": step_s / len(decoding) if decoding else None,
        "step_over_forwards": step_s / forwards_s if decoding else None,
        "tokens_per_step": sum(emitted) / len(emitted) if emitted else None,
        "acceptance": _acceptance(arm, requests, emitted),
        "cached_tokens": [
            request.report["cached_tokens"] if request.report else request.num_cached for request in requests
        ],
    }


def _acceptance(arm: Arm, requests: Sequence[Request], emitted: Sequence[int]) -> float | None:
    """The share of drafts that stood; a draft that nobody looked at, behind a refused one, did not."""
    if arm.engine == "asymspec":
        reports = [request.report or {} for request in requests]
        drafted = sum(report["drafted"] for report in reports)
        return sum(report["accepted"] for report in reports) / drafted if drafted else None
    if arm.engine == "draft" and emitted:
        return sum(count - 1 for count in emitted) / (NUM_DRAFT_TOKENS * len(emitted))
    return None


def measure_cells(engine: MeasuredEngine, plan: Plan, arm: Arm, prompts: Prompts) -> Iterator[dict[str, Any]]:
    """Every cell from empty caches; a view that an arm doesn't read is no reason to measure it again."""
    seen: set[tuple[int, int]] = set()
    for cell in plan.cells:
        if arm.reads_full_only and (cell.full_tokens, cell.batch) in seen:
            continue
        seen.add((cell.full_tokens, cell.batch))
        engine.forget()
        prompts.restart()
        fulls = [prompts.full(cell.full_tokens) for _ in range(cell.batch)]
        requests = [
            engine.add(arm, full, full[-cell.compressed_tokens :], cell.output_tokens) for full in fulls
        ]
        engine.finish(requests)
        views = {"share": None, "compressed_tokens": None}
        if not arm.reads_full_only:
            views = {"share": cell.share, "compressed_tokens": cell.compressed_tokens}
        figures = _figures(arm, requests, engine.steps)
        yield {"full_tokens": cell.full_tokens, **views, "batch": cell.batch, **figures}


def measure_turns(engine: MeasuredEngine, plan: Plan, arm: Arm, prompts: Prompts) -> Iterator[dict[str, Any]]:
    """A conversation, turn by turn: both views grow by the answer and a tool output or its beginning."""
    turns = plan.turns
    if turns is None:
        return
    engine.forget()
    text = prompts.text(turns.num_turns * turns.turn_tokens)
    full: list[int] = []
    compressed: list[int] = []
    for turn in range(turns.num_turns):
        output = text[turn * turns.turn_tokens : (turn + 1) * turns.turn_tokens]
        full = full + output
        compressed = compressed + output[: max(1, round(turns.turn_tokens * turns.share))]
        request = engine.add(arm, full, compressed, turns.output_tokens)
        engine.finish([request])
        figures = _figures(arm, [request], engine.steps)
        yield {"turn": turn, "full_tokens": len(full), "compressed_tokens": len(compressed), **figures}
        full, compressed = full + request.tokens, compressed + request.tokens


def measure_arrival(
    engine: MeasuredEngine, plan: Plan, arm: Arm, prompts: Prompts, label: str
) -> Iterator[dict[str, Any]]:
    """What somebody who decodes notices of another's long view: the longest wait for a token."""
    arrival = plan.arrival
    if arrival is None:
        return
    engine.forget()
    prompts.restart()
    own, other = prompts.full(arrival.own_tokens), prompts.full(arrival.full_tokens)
    decoding = engine.add(arm, own, own[-max(2, round(len(own) * arrival.share)) :], ARRIVAL_OUTPUT_TOKENS)
    while len(decoding.tokens) < 2 * (NUM_DRAFT_TOKENS + 1):
        engine.step()
    num_before = len(decoding.times_s)
    newcomer = engine.add(arm, other, other[-round(len(other) * arrival.share) :], 1)
    while not newcomer.finished:
        engine.step()
    times = decoding.times_s[num_before - 1 :]
    yield {
        "arm": arm.name,
        "reading": label,
        "full_tokens": arrival.full_tokens,
        "longest_wait_s": max(later - earlier for earlier, later in itertools.pairwise(times)),
        "newcomer_first_token_s": newcomer.first_s,
    }
    engine.abort_all()


def measure_arrivals(
    engine: MeasuredEngine, plan: Plan, arm: Arm, prompts: Prompts
) -> Iterator[dict[str, Any]]:
    """Arrivals as the engine is set; of this plugin's also with all of the drafter's reading in one step."""
    yield from measure_arrival(engine, plan, arm, prompts, "as set")
    if arm.reads_both:
        scheduler = engine.core.scheduler
        settings = scheduler._plugin_config
        scheduler._plugin_config = replace(settings, prefill_tokens=2 * plan.max_len)
        yield from measure_arrival(engine, plan, arm, prompts, "in one step")
        scheduler._plugin_config = settings


PARTS: dict[str, Callable[[MeasuredEngine, Plan, Arm, Prompts], Iterator[dict[str, Any]]]] = {
    "cells": measure_cells,
    "turns": measure_turns,
    "arrivals": measure_arrivals,
}


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    plan, name = PLANS[job["plan"]], job["engine"]
    prompts = Prompts(texts(job["plan"], Path(job["folders"][0]), plan.num_tokens))
    engine = MeasuredEngine(plan, name, tuple(job["folders"]), job["has_weights"])
    result: dict[str, Any] = {"engine": name, "start_s": engine.start_s}
    warm_up = [engine.add(arm, prompts.full(64), prompts.full(64), 4) for arm in ARMS if arm.engine == name]
    engine.finish(warm_up)
    for part, measure in PARTS.items():
        result[part] = [
            row for arm in ARMS if arm.engine == name for row in measure(engine, plan, arm, prompts)
        ]
    Path(job["result"]).write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main()
