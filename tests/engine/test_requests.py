"""Requests at their limits: room, refusals, aborts, interruptions, other threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

from asymspec_agents.engine.arms import ARMS
from asymspec_agents.engine.engine import DecodeRequest, Engine, EngineOptions
from asymspec_agents.engine.view import PREFILL_CHUNK
from asymspec_agents.errors import ConfigurationError, ContextOverflowError, RequestAbortedError
from asymspec_agents.trace import MemoryRecorder

from .runs import run
from .tiny import pair, prompt, tiny_engine, views

LONG = (prompt(1, 3 * PREFILL_CHUNK), prompt(2, 40))


def limited(engine: Engine, num_positions: int, monkeypatch: pytest.MonkeyPatch) -> Engine:
    for model in engine.models.values():
        monkeypatch.setattr(model, "max_positions", num_positions)
    return engine


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("bonus", ["rule", "verifier"])
def test_an_answer_may_fill_the_context_and_no_more(
    arm: str, bonus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, compressed = views(0)
    engine = limited(tiny_engine(), 64, monkeypatch)
    longest = []
    forward = type(engine.models["verifier"]).forward

    def watched(model: Any, ids: torch.Tensor, cache: Any, *further: Any) -> torch.Tensor:
        longest.append(cache.length + ids.shape[1])
        return forward(model, ids, cache, *further)

    monkeypatch.setattr(type(engine.models["verifier"]), "forward", watched)
    result = run(engine, (full, compressed), arm=arm, max_tokens=None, num_draft_tokens=3, bonus=bonus)
    assert result.outcome.finish_reason == "length"
    assert max(longest) <= 64
    reads_full = arm not in ("floor", "symmetric_compressed", "scd")
    assert len(result.tokens) >= 64 - len(full if reads_full else compressed) - 4
    room = len(result.tokens)
    assert run(engine, (full, compressed), arm=arm, max_tokens=room, num_draft_tokens=3, bonus=bonus).tokens
    with pytest.raises(ContextOverflowError, match=f"lower max_tokens to {room} "):
        run(engine, (full, compressed), arm=arm, max_tokens=room + 1, num_draft_tokens=3, bonus=bonus)


@pytest.mark.parametrize(("long_view", "reader"), [("full", "drafter"), ("compressed", "verifier")])
def test_an_overlong_view_is_named_with_its_limit(
    long_view: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = limited(tiny_engine(), 50, monkeypatch)
    both = (prompt(0, 49), prompt(1, 20)) if long_view == "full" else (prompt(0, 20), prompt(1, 49))
    with pytest.raises(ContextOverflowError, match=long_view) as caught:
        run(engine, both, max_tokens=1, num_draft_tokens=2)
    assert (caught.value.num_tokens, caught.value.limit) == (49, 47)
    assert run(engine, (both[0][:47], both[1][:47]), max_tokens=1, num_draft_tokens=2).tokens


def test_configured_limits() -> None:
    options = EngineOptions(max_verifier_tokens=18, max_drafter_tokens=45)
    engine = tiny_engine(options=options)
    assert run(engine, (prompt(0, 45), prompt(1, 18)), max_tokens=2).tokens
    with pytest.raises(ContextOverflowError, match="full"):
        run(engine, (prompt(0, 46), prompt(1, 18)), max_tokens=2)
    with pytest.raises(ContextOverflowError, match="compressed"):
        run(engine, (prompt(0, 45), prompt(1, 19)), max_tokens=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix_cache_bytes": -1}, "prefix_cache_bytes=-1"),
        ({"max_verifier_tokens": 0}, "max_verifier_tokens=0"),
        ({"max_drafter_tokens": -5}, "max_drafter_tokens=-5"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EngineOptions(**options)


@pytest.mark.parametrize("max_tokens", [0, -3])
def test_an_answer_has_at_least_one_token(max_tokens: int) -> None:
    with pytest.raises(ConfigurationError, match=f"max_tokens={max_tokens}"):
        run(tiny_engine(), views(0), max_tokens=max_tokens)


@pytest.mark.parametrize("both", [([], [1]), ([1], [])])
def test_an_empty_view_is_refused(both: tuple[list[int], list[int]]) -> None:
    with pytest.raises(ConfigurationError, match="no tokens"):
        run(tiny_engine(), both)


def test_an_abort_in_prefill_keeps_what_was_read() -> None:
    recorder = MemoryRecorder()
    engine = tiny_engine(recorder=recorder)
    abort = threading.Event()

    def after_a_chunk(module: nn.Module, args: Any, output: Any) -> None:
        abort.set()

    hook = engine.models["drafter"].module.register_forward_hook(after_a_chunk)
    request = DecodeRequest(full=LONG[0], compressed=LONG[1], max_tokens=5, request_id="first")
    with pytest.raises(RequestAbortedError, match="first"):
        next(engine.decode(request, abort=abort))
    hook.remove()
    again = run(engine, LONG, max_tokens=5)
    assert again.report.cached_tokens.drafter == PREFILL_CHUNK
    assert again.tokens == run(tiny_engine(), LONG, max_tokens=5).tokens


@pytest.mark.parametrize("how", ["abort", "close"])
def test_an_answer_ended_early_leaves_exact_caches(how: str) -> None:
    engine = tiny_engine()
    expected = run(tiny_engine(), views(0), max_tokens=20).tokens
    abort = threading.Event()
    stream = engine.decode(
        DecodeRequest(full=views(0)[0], compressed=views(0)[1], max_tokens=20), abort=abort
    )
    tokens = [*next(stream).tokens, *next(stream).tokens]
    if how == "abort":
        abort.set()
        with pytest.raises(RequestAbortedError):
            next(stream)
    else:
        stream.close()
    continued = tuple([*view, *tokens, 3] for view in views(0))
    result = run(engine, continued, max_tokens=20)  # type: ignore[arg-type]
    assert result.report.cached_tokens.drafter == len(views(0)[0]) + len(tokens) - 1
    assert result.tokens == run(tiny_engine(), continued, max_tokens=20).tokens  # type: ignore[arg-type]
    assert run(engine, views(0), max_tokens=20).tokens == expected


@pytest.mark.parametrize("model", ["verifier", "drafter"])
@pytest.mark.parametrize("call", [0, 1, 4, 7])
def test_a_forward_that_fails_leaves_the_engine_exact(model: str, call: int) -> None:
    engine = tiny_engine()
    expected = run(tiny_engine(), views(0), max_tokens=20).tokens
    left = [call]

    def fail(module: nn.Module, args: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError("no more")

    layer = engine.models[model].module.get_submodule("model.layers.1.mlp")
    hook = layer.register_forward_pre_hook(fail)
    try:
        with pytest.raises(MemoryError):
            run(engine, views(0), max_tokens=20)
    finally:
        hook.remove()
    assert run(engine, views(0), max_tokens=20).tokens == expected


def test_a_second_caller_waits_its_turn_and_may_give_up() -> None:
    engine = tiny_engine()
    stream = engine.decode(DecodeRequest(full=views(0)[0], compressed=views(0)[1], max_tokens=20))
    next(stream)
    abort, outcome = threading.Event(), []

    def impatient() -> None:
        try:
            next(engine.decode(DecodeRequest(full=[1, 2], compressed=[1], request_id="late"), abort=abort))
        except RequestAbortedError as error:
            outcome.append(str(error))

    def patient() -> None:
        outcome.append(run(engine, views(1), max_tokens=5).tokens)

    threads = [threading.Thread(target=impatient), threading.Thread(target=patient)]
    threads[0].start()
    abort.set()
    threads[0].join(timeout=30)
    assert outcome == ["request late was aborted"]
    threads[1].start()
    stream.close()
    threads[1].join(timeout=30)
    assert outcome[1] == run(tiny_engine(), views(1), max_tokens=5).tokens


def test_one_thread_cannot_wait_for_itself() -> None:
    engine = tiny_engine()
    stream = engine.decode(DecodeRequest(full=views(0)[0], compressed=views(0)[1], max_tokens=20))
    next(stream)
    with pytest.raises(ConfigurationError, match="unfinished stream"):
        run(engine, views(1))
    stream.close()
    assert run(engine, views(1), max_tokens=3).tokens


def test_an_engine_of_one_model() -> None:
    """The drafter may be the verifier: then a low gamma accepts all, and γ=2 none."""
    verifier, _ = pair("qwen2")
    base = tiny_engine()
    engine = Engine(verifier, verifier, base.tokenizer, base.vocab_size)
    accepting = run(engine, views(0), max_tokens=20, gamma=0.9).report
    assert (accepting.fused, accepting.accepted) == (0, accepting.drafted)
    refusing = run(engine, views(0), max_tokens=20, gamma=2.0).report
    assert refusing.accepted == 0
