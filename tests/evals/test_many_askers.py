"""Several askers at work at once give what they give one after another: answers, counts, costs and views."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from asymspec_agents.backends import AnyRequest, ScriptedBackend
from asymspec_agents.messages import Message
from asymspec_agents.tokens import EstimateCounter
from evals.cells import Cell, ViewSpec
from evals.records import Output
from evals.sample import LongPart, Sample
from evals.systems import System, SystemOptions, open_system
from evals.views import RouterLimits, TextTokens, ViewMaker, ViewMeans
from tests.engine.tiny_folder import random_backend
from tests.evals.tiny_system import LONG, made_up_sample
from tests.server.serving import serving

NUM_THREADS = 8
CELLS = (
    "ceiling",
    "drafter",
    "floor on extract@0.3",
    "floor on summary@0.9",
    "asymspec on summary@0.9",
    "asymspec on summary_drafter@0.9",
    "product on truncate@0.3",
    "strict on router@0.3",
)
SAMPLES = tuple(
    replace(
        made_up_sample(),
        id=str(number),
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content=LONG.replace("the pump", f"pump {number}")),
            Message(role="user", content="Which line says that the pump failed?"),
        ),
        max_tokens=8,
    )
    for number in range(2)
)
JOBS = [(cell, sample) for sample in SAMPLES for cell in CELLS]
TIMES = ("elapsed_s", "time_to_first_token_s", "compress_s", "peak_memory_bytes")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    engine = random_backend()
    with serving({"verifier": engine, "drafter": engine.with_arm("drafter")}) as address:
        yield address


def opened(url: str) -> System:
    return open_system(
        SystemOptions(
            url=url, drafter_url=url, drafter_model="drafter", verifier_params=1_000, drafter_params=10
        )
    )


def asked_twice(system: System, cell: str, sample: Sample) -> Output:
    """The output of two calls, the second of which goes on from the first."""
    asker = system.asker(None, sample, Cell.parse(cell))  # type: ignore[arg-type]  # no suite is needed
    messages: list[Any] = list(sample.messages)
    for _ in range(2):
        response = asker.ask(
            messages, query=sample.query, long_parts=sample.long_parts, max_tokens=sample.max_tokens
        )
        messages += [
            {"role": "assistant", "content": response.content or "-"},
            {"role": "user", "content": "Go on."},
        ]
    return asker.output(response.content)


def untimed(value: Any) -> Any:
    """The value without what a clock says."""
    if isinstance(value, dict):
        return {name: untimed(item) for name, item in value.items() if name not in TIMES}
    return [untimed(item) for item in value] if isinstance(value, list | tuple) else value


def told(output: Output) -> Any:
    return untimed(output.model_dump(mode="json"))


def test_eight_threads_get_what_one_gets(url: str) -> None:
    one_by_one, at_once = opened(url), opened(url)
    try:
        expected = [told(asked_twice(one_by_one, *job)) for job in JOBS]
        with ThreadPoolExecutor(NUM_THREADS) as pool:
            found = list(pool.map(lambda job: told(asked_twice(at_once, *job)), JOBS))
    finally:
        one_by_one.close()
        at_once.close()
    for job, one, other in zip(JOBS, expected, found, strict=True):
        assert other == one, job[0]
    calls = [call for output in expected for call in output["calls"]]
    assert len(calls) == 2 * len(JOBS)
    assert any(call["extra_flops"] > 0 for call in calls)
    assert any(call["cached_tokens"]["verifier"] > 0 for call in calls)


def test_a_rendition_that_all_want_at_once_is_made_once_and_costs_each_the_same() -> None:
    requests: list[AnyRequest] = []

    def slow(request: AnyRequest) -> str:
        requests.append(request)
        time.sleep(0.2)  # so that the others come while it is made
        return "The pump failed."

    backend = ScriptedBackend(slow)
    means = ViewMeans(
        tokens=TextTokens(EstimateCounter()), plain=lambda _: backend, params=lambda reader: 100
    )
    maker = ViewMaker(ViewSpec.parse("summary@0.9"), means)
    barrier = threading.Barrier(NUM_THREADS)

    def made(number: int) -> tuple[float, list[str]]:
        text = SAMPLES[number % 2].messages[1]
        barrier.wait(10)
        view = maker.make((text,), (), query="Which pump?", long_parts=[LongPart(0)], limits=RouterLimits())
        return view.effort.flops, [edit.text for edit in view.edits]

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        found = list(pool.map(made, range(NUM_THREADS)))
    assert len(requests) == 2
    assert [found[0], found[1]] * (NUM_THREADS // 2) == found
    assert found[0][0] > 0
    assert found[0][1] != found[1][1]
