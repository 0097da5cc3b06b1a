"""The thread that runs the classifier for all callers: shared work, dropped work, failures, limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from asymspec_agents.compress.guarded import GuardedCompressor
from asymspec_agents.compress.llmlingua import LLMLingua2, nothing_protected
from asymspec_agents.compress.llmlingua import runner as runner_module
from asymspec_agents.compress.llmlingua.classifier import Classifier
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.trace import MemoryRecorder
from tests.compress.checkpoints import PROSE

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
WAIT_S = 20.0


def nothing(num_done: int, num_sequences: int) -> None:
    pass


class Model:
    """Scores are ids; notes every batch, and runs `before` first."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.batches: list[list[list[int]]] = []
        self.threads: set[str] = set()
        self.before = before

    def probabilities(self, sequences: Sequence[Ids]) -> list[Scores]:
        self.before()
        self.batches.append([ids.tolist() for ids in sequences])
        self.threads.add(threading.current_thread().name)
        return [ids.astype(np.float32) for ids in sequences]


def ids(*values: int) -> Ids:
    return np.array(values, np.int64)


@given(
    callers=st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=8), min_size=1, max_size=8),
    batch_size=st.integers(1, 5),
    max_cached=st.integers(1, 6),
)
@settings(max_examples=30)
def test_every_caller_gets_its_own(callers: list[list[int]], batch_size: int, max_cached: int) -> None:
    model = Model()
    classifier = Classifier(model, batch_size=batch_size, max_cached=max_cached)

    def call(lengths: list[int]) -> list[int]:
        wanted = [np.full(length, length, np.int64) for length in lengths]
        return [len(s) for s in classifier.scores(wanted, timeout_s=WAIT_S, on_progress=nothing)]

    with ThreadPoolExecutor(len(callers)) as pool:
        assert list(pool.map(call, callers)) == callers
    assert all(len(batch) <= batch_size for batch in model.batches)
    for batch in model.batches:
        lengths = [len(sequence) for sequence in batch]
        assert max(lengths) - min(lengths) < 64
    assert model.threads == {"asymspec-llmlingua"}


def test_the_same_chunk_is_computed_once() -> None:
    model = Model()
    classifier = Classifier(model, batch_size=4, max_cached=10)
    for _ in range(3):
        classifier.scores([ids(1, 2), ids(1, 2), ids(3)], timeout_s=WAIT_S, on_progress=nothing)
    assert sum(len(batch) for batch in model.batches) == 2


def test_what_nobody_waits_for_is_not_begun() -> None:
    go, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go.wait(WAIT_S)

    model = Model(hold)
    classifier = Classifier(model, batch_size=1, max_cached=10)
    with pytest.raises(TimeoutError, match="0 of 5 chunks"):
        classifier.scores([ids(n) for n in range(5)], timeout_s=1.0, on_progress=nothing)
    assert begun.wait(WAIT_S)
    go.set()
    classifier.scores([ids(9)], timeout_s=WAIT_S, on_progress=nothing)
    assert model.batches == [[[0]], [[9]]]
    classifier.scores([ids(0)], timeout_s=WAIT_S, on_progress=nothing)  # begun for one who left, and kept
    assert len(model.batches) == 2


def test_what_another_still_waits_for_is_done() -> None:
    go, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go.wait(WAIT_S)

    classifier = Classifier(Model(hold), batch_size=1, max_cached=10)
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(classifier.scores, [ids(1), ids(2)], timeout_s=WAIT_S, on_progress=nothing)
        assert begun.wait(WAIT_S)
        with pytest.raises(TimeoutError):
            classifier.scores([ids(2), ids(3)], timeout_s=0.02, on_progress=nothing)
        go.set()
        assert [scores.tolist() for scores in patient.result(WAIT_S)] == [[1], [2]]


def test_a_failure_reaches_its_callers_and_no_other() -> None:
    failures = iter([True, False])

    def fail_once() -> None:
        if next(failures, False):
            raise MemoryError("full")

    classifier = Classifier(Model(fail_once), batch_size=4, max_cached=10)
    with pytest.raises(MemoryError):
        classifier.scores([ids(1)], timeout_s=WAIT_S, on_progress=nothing)
    assert classifier.scores([ids(1)], timeout_s=WAIT_S, on_progress=nothing)[0].tolist() == [1]


def test_its_thread_ends_with_the_work() -> None:
    classifier = Classifier(Model(), batch_size=4, max_cached=10)
    classifier.scores([ids(1)], timeout_s=WAIT_S, on_progress=nothing)
    for thread in threading.enumerate():
        if thread.name == "asymspec-llmlingua":
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_threads_change_no_rendition(checkpoints: dict[str, Path], runners: dict[str, LLMLingua2]) -> None:
    counter = EstimateCounter()
    texts = [PROSE[start : start + 3_000] for start in range(0, 12_000, 1_000)]
    alone = [runners["bert"].compress(t, query="", target_tokens=300, counter=counter).text for t in texts]
    shared = LLMLingua2.load(checkpoints["bert"], batch_size=4, protected=nothing_protected)
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(
            lambda t: shared.compress(t, query="", target_tokens=300, counter=counter).text, texts * 2
        )
        assert list(made) == alone * 2


def test_too_slow_a_model_gives_head_and_tail(checkpoints: dict[str, Path]) -> None:
    recorder = MemoryRecorder()
    slow = LLMLingua2.load(checkpoints["bert"], timeout_s=1e-6, protected=nothing_protected)
    guarded = GuardedCompressor(slow, timeout_s=WAIT_S, recorder=recorder)
    made = guarded.compress(PROSE, query="", target_tokens=300, counter=EstimateCounter())
    assert made.degraded
    (event,) = recorder.events
    assert event.model_dump()["reason"] == "TimeoutError"


def test_progress_is_recorded(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "PROGRESS_S", 0.0)
    recorder = MemoryRecorder()
    runner = LLMLingua2.load(checkpoints["bert"], recorder=recorder, protected=nothing_protected)
    runner.compress(PROSE, query="", target_tokens=900, counter=EstimateCounter())
    reports = [event.model_dump() for event in recorder.events]
    assert {report["event"] for report in reports} == {"compress_progress"}
    done = [report["num_done"] for report in reports]
    assert done == sorted(done)
    assert done[-1] == reports[-1]["num_chunks"] > 2
    assert "harbour" not in repr(reports)
