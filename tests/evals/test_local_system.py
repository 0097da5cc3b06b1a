"""The local system: every arm answers, lossless arms agree, and the counts of a call add up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from asymspec_agents.backends import ChatRequest, collect
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.errors import (
    ConfigurationError,
    ContextOverflowError,
    UnsupportedRequestError,
)
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecRequest
from asymspec_agents.views import ViewPolicy
from evals.cells import BASELINES, ArmSpec, Cell, ViewSpec, cells_of
from evals.systems import System, SystemOptions, open_system
from smolagents_asymspec import AsymSpecModel
from tests.evals.tiny_system import LONG, QUERY, asked, made_up_sample, tiny_options

GATES = ("cda", "fixed", "position", "fused_greedy", "slack", "strict")
DELTAS = ("context", "full", "scd", "none")
ARMS = (*BASELINES, "identical", "paper", *MODES, *(f"{gate}+{delta}" for gate in GATES for delta in DELTAS))
VIEW = ViewSpec("truncate", 0.3)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    opened = open_system(tiny_options(tmp_path_factory.mktemp("pair")))
    yield opened
    opened.close()


@pytest.mark.parametrize("cell", [str(cell) for cell in cells_of(tuple(map(ArmSpec, ARMS)), (VIEW,))])
def test_every_arm_answers_and_its_counts_add_up(system: System, cell: str) -> None:
    response, output = asked(system, cell)
    (call,) = output.calls
    assert output.answer == response.content
    assert call.text == response.raw_text
    assert "".join(text for text, _ in call.segments) == call.text
    emitted = call.num_accepted + call.num_fused + call.num_bonus
    assert call.completion_tokens == response.usage.completion_tokens == 24
    assert 0 <= emitted - call.completion_tokens <= 2  # what the last block had beyond the limit
    assert sum(call.drafted_per_position) == call.num_drafted
    assert sum(call.accepted_per_position) == call.num_accepted
    assert len(call.accepted_per_position) == len(call.drafted_per_position)
    assert call.computed_tokens is not None
    report = response.report
    assert report is not None
    assert (call.num_drafted, call.num_accepted) == (report.drafted, report.accepted)
    assert (call.num_fused, call.num_bonus) == (report.fused, report.bonus)
    assert (call.mode, call.fallback) == (report.mode, report.fallback)
    if call.num_judged:
        assert call.num_judged == call.num_accepted + call.num_fused
        assert call.divergence_sum / call.num_judged == pytest.approx(report.mean_divergence)
    assert call.full_tokens == system.count_tokens(made_up_sample().messages)


@pytest.mark.parametrize(("arm", "same"), [("identical", "ceiling"), ("symmetric_full", "ceiling")])
def test_arms_on_the_full_view_twice_are_lossless(system: System, arm: str, same: str) -> None:
    _, mine = asked(system, arm)
    _, theirs = asked(system, same)
    assert mine.answer == theirs.answer
    assert mine.calls[0].num_drafted > 0 == theirs.calls[0].num_drafted


def test_the_no_harm_control_decodes_strictly(system: System) -> None:
    _, output = asked(system, "identical")
    assert (output.calls[0].mode, output.calls[0].fallback) == ("strict", "identical_views")
    assert output.views == ()


def test_symmetric_decoding_of_the_compressed_view_is_floor(system: System) -> None:
    cells = [f"{arm} on {VIEW}" for arm in ("floor", "symmetric_compressed")]
    floor, symmetric = (asked(system, cell)[1] for cell in cells)
    assert floor.answer == symmetric.answer
    assert floor.answer != asked(system, "ceiling")[1].answer


def test_views_and_models_are_those_of_the_arm(system: System) -> None:
    calls = {arm: asked(system, str(cells_of((ArmSpec(arm),), (VIEW,))[0]))[1].calls[0] for arm in BASELINES}
    full, short = calls["floor"].full_tokens, calls["floor"].compressed_tokens
    assert full is not None
    assert short is not None
    assert short < 0.5 * full
    reads = {arm: (call.prompt_tokens.verifier, call.prompt_tokens.drafter) for arm, call in calls.items()}
    assert reads == {
        "floor": (short, 0),
        "ceiling": (full, 0),
        "drafter": (0, full),
        "symmetric_full": (full, full),
        "symmetric_compressed": (short, short),
        "scd": (short, short),
        "rapid": (full, short),
    }
    assert calls["ceiling"].compressed_tokens is None


def test_an_option_of_the_arm_reaches_the_engine(system: System) -> None:
    _, few = asked(system, f"asymspec:num_draft_tokens=1 on {VIEW}")
    _, many = asked(system, f"asymspec:num_draft_tokens=6 on {VIEW}")
    assert (len(few.calls[0].drafted_per_position), len(many.calls[0].drafted_per_position)) == (2, 7)
    assert few.answer == many.answer  # the rule's bonus: the text does not depend on the block


def test_no_arm_finds_the_caches_of_another_but_a_second_turn_finds_its_own(system: System) -> None:
    sample = made_up_sample()
    asked(system, "ceiling")
    asker = system.asker(None, sample, Cell.parse("ceiling"))  # type: ignore[arg-type]
    for _ in range(2):
        asker.ask(sample.messages, max_tokens=4)
    first, second = asker.output("").calls
    assert first.cached_tokens.verifier == 0
    assert second.cached_tokens.verifier == second.prompt_tokens.verifier - 1


def test_what_was_shortened_can_be_looked_at(system: System) -> None:
    _, output = asked(system, f"asymspec on {VIEW}", made_up_sample(with_tools=True))
    (text, tools) = output.views
    assert (text["place"], text["role"], text["full"]) == ("messages[1].content", "user", LONG)
    assert text["compressed"] != LONG
    assert tools["place"] == "tools"
    assert "Weather of a city." in tools["full"]
    assert "Weather of a city." not in tools["compressed"]


def test_peak_memory_is_told_on_linux(system: System) -> None:
    _, output = asked(system, "ceiling")
    if Path("/proc/self/clear_refs").exists():
        assert output.peak_memory_bytes is None or output.peak_memory_bytes > 10_000_000


def test_a_failing_call_is_recorded_and_raised(system: System) -> None:
    asker = system.asker(None, made_up_sample(), Cell.parse("ceiling"))  # type: ignore[arg-type]
    with pytest.raises(ContextOverflowError):
        asker.ask([{"role": "user", "content": "x" * 4_000}], max_tokens=4)
    (call,) = asker.output("").calls
    assert (call.finish_reason, call.completion_tokens, call.text) == ("error", 0, "")
    assert call.computed_tokens is not None
    assert call.computed_tokens.verifier == 0


def request(**fields: object) -> ChatRequest:
    """What an agent framework sends through a router."""
    messages = parse_messages(made_up_sample().messages)
    asymspec = AsymSpecRequest.of(edits=({"message": 1, "text": LONG[:80]},), mode="product")
    return ChatRequest(messages=messages, asymspec=asymspec, max_tokens=12, **fields)  # type: ignore[arg-type]


def test_as_a_backend_the_arm_decides_how_it_is_decoded(system: System) -> None:
    asker = system.asker(None, made_up_sample(), Cell.parse(f"cda_only on {VIEW}"))  # type: ignore[arg-type]
    backend = asker.backend()
    whole = backend.generate(request())
    streamed = collect(backend.stream(request()))

    async def awaited() -> list[str]:
        deltas = [delta async for delta in backend.astream(request())]
        return [(await backend.agenerate(request())).content, collect(deltas).content]

    assert {whole.content, streamed.content, *asyncio.run(awaited())} == {whole.content}
    calls = asker.output("").calls
    assert [call.mode for call in calls] == ["cda_only"] * 4
    assert {call.text for call in calls} == {whole.raw_text}
    assert [call.full_tokens for call in calls] == [calls[0].full_tokens] * 4
    assert len({call.num_accepted for call in calls}) == 1


def test_a_stream_that_is_left_is_recorded_with_its_work(system: System) -> None:
    asker = system.asker(None, made_up_sample(), Cell.parse("ceiling"))  # type: ignore[arg-type]
    stream = asker.backend().stream(request())
    next(iter(stream))
    stream.close()  # type: ignore[attr-defined]
    (call,) = asker.output("").calls
    assert (call.finish_reason, call.completion_tokens) == ("aborted", 1)
    assert call.computed_tokens is not None
    assert call.computed_tokens.verifier >= call.prompt_tokens.verifier


def test_arms_are_greedy(system: System) -> None:
    for arm in ("floor", "asymspec"):
        asker = system.asker(None, made_up_sample(), Cell.parse(f"{arm} on {VIEW}"))  # type: ignore[arg-type]
        with pytest.raises(UnsupportedRequestError, match="greedy"):
            asker.backend().generate(request(temperature=0.7))


def test_the_models_are_named_and_counted(system: System) -> None:
    identity = system.identity
    assert identity["verifier_params"] == identity["drafter_params"] == 33_056
    assert identity["kind"] == "local"
    assert None not in (identity["torch"], identity["transformers"])
    assert all(system.supports(ArmSpec(arm)) for arm in ARMS)
    assert system.max_parallel == 1


def test_an_unusable_view_is_refused_before_the_run(system: System) -> None:
    with pytest.raises(ConfigurationError, match="--llmlingua"):
        system.check(Cell.parse("floor on llmlingua@0.3"))
    with pytest.raises(ConfigurationError, match="unknown; methods: extract, auto, truncate"):
        system.check(Cell.parse("floor on squeeze@0.3"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"url": "http://localhost:1", "verifier": "v"}, "verifier: only for local models"),
        ({"model": "m"}, "model: only for a server"),
        ({"url": "http://localhost:1", "verifier_params": 0}, "verifier_params=0"),
        ({"verifier_sees_images": True}, "verifier_sees_images: local models say so themselves"),
        ({"drafter_sees_images": True}, "drafter_sees_images: local models say so themselves"),
        ({"timeout_s": 0}, "timeout_s=0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        SystemOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("cell", ["ceiling", "identical", "floor on head@0.2", f"asymspec on {VIEW}"])
def test_an_agents_model_is_the_arm_with_its_router(system: System, cell: str) -> None:
    asker = system.asker(None, made_up_sample(), Cell.parse(cell))  # type: ignore[arg-type]
    policy = ViewPolicy(keep_last=0, first_sight_tokens=100, ratio=0.2)
    model = AsymSpecModel(asker.backend(), asker.router(policy), max_tokens=8)
    history = [
        {"role": "user", "content": QUERY},
        {"role": "assistant", "content": "Calling tools: log()"},
        {"role": "user", "content": f"Observation: {LONG[:250]}"},
    ]
    for _ in range(2):
        model.generate(history)
    calls = asker.output("").calls
    reads_full = " on " not in cell
    assert [call.compressed_tokens is None for call in calls] == [reads_full] * 2
    assert len(asker.output("").views) == (0 if reads_full else 1)
    assert [call.compress_s > 0 for call in calls] == [True] * 2  # the router's own time
    assert calls[1].cached_tokens.verifier == calls[1].prompt_tokens.verifier - 1
