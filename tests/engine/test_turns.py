"""Agent conversations: each view recomputes only what no earlier call has read, and the trace shows it."""

from __future__ import annotations

import pytest

from asymspec_agents.engine.engine import DecodeRequest, Engine, EngineOptions
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.trace import MemoryRecorder

from .naive import Comparison, compare
from .runs import Run, run
from .settings import naive_asymspec
from .tiny import ARCHITECTURES, prompt, tiny_engine
from .turns import History, last_request

SYSTEM, PLANNING, FINAL = prompt(50, 20), prompt(51, 18), prompt(52, 22)
ANSWER_TOKENS = 9  # a multiple of the block length, so that nothing is trimmed


def call(engine: Engine, history: History, views: tuple[list[int], list[int]]) -> Run:
    """One checked call."""
    result = run(engine, views, max_tokens=ANSWER_TOKENS, gamma=0.0)  # accepts all: blocks of three tokens
    full, compressed = views
    prompts = {"verifier": compressed, "drafter": full}
    if full != compressed:  # equal views are one for the drafter
        prompts["base"] = compressed
    history.check(result, prompts)
    return result


def grown(view: list[int], answer: list[int], output: list[int]) -> list[int]:
    return [*view, *answer, *output]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ten_calls_of_a_growing_conversation(architecture: str) -> None:
    recorder = MemoryRecorder()
    engine = tiny_engine(architecture, recorder=recorder)
    history = History(recorder)
    full, compressed = [*SYSTEM, *prompt(0, 30)], [*SYSTEM, *prompt(0, 30)[:4]]
    seen = Comparison()
    for turn in range(10):
        result = call(engine, history, (full, compressed))
        compare(result, naive_asymspec(architecture, (full, compressed), AsymSpecOptions.of(gamma=0.0)), seen)
        cached = last_request(recorder).cached_tokens
        if turn:
            assert cached.drafter > len(full) - 50
            assert cached.verifier > len(compressed) - 20
        output = prompt(100 + turn, 40)
        full, compressed = grown(full, result.tokens, output), grown(compressed, result.tokens, output[:6])
    seen.check_excuses()
    assert len(engine.prefixes) == 3  # one cache a view, grown from call to call


def test_a_compressed_turn_costs_what_follows_it() -> None:
    """When a turn leaves the verbatim window, the verifier's view changes in its middle."""
    recorder = MemoryRecorder()
    engine = tiny_engine(recorder=recorder)
    history = History(recorder)
    full = [*SYSTEM]
    turns: list[tuple[list[int], list[int]]] = []
    for turn in range(10):
        compressed = [*SYSTEM]
        for index, (answer, output) in enumerate(turns):
            is_recent = len(turns) - index <= 2
            compressed += [*answer, *(output if is_recent else output[:5])]
        compressed.append(turn)
        result = call(engine, history, ([*full, turn], compressed))
        output = prompt(200 + turn, 25)
        turns.append((result.tokens, output))
        full = [*full, turn, *result.tokens, *output]


def test_branches_come_back_to_their_own_caches() -> None:
    """A run alternates between planning, steps and a final answer: prefixes that share nothing."""
    recorder = MemoryRecorder()
    engine = tiny_engine(recorder=recorder)
    history = History(recorder)
    memory: list[int] = []
    for turn in range(10):
        head = {0: PLANNING, 4: PLANNING, 8: PLANNING, 9: FINAL}.get(turn, SYSTEM)
        full, compressed = [*head, *memory, turn], [*head, *memory[::3], turn]
        result = call(engine, history, (full, compressed))
        if turn in (4, 8):
            assert last_request(recorder).cached_tokens.drafter >= len(PLANNING)
        memory += [*result.tokens, *prompt(300 + turn, 12)]


def test_a_retry_reads_only_the_last_token() -> None:
    recorder = MemoryRecorder()
    engine = tiny_engine(recorder=recorder)
    history = History(recorder)
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(1, 9)]
    for _ in range(3):
        call(engine, history, views)
    cached = last_request(recorder).cached_tokens
    assert (cached.drafter, cached.verifier, cached.base) == (49, 28, 28)
    assert call(engine, history, (views[0][:25], views[1][:22])).report.cached_tokens.drafter == 24


def test_salts_and_models_isolate() -> None:
    engine = tiny_engine()
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(1, 9)]
    first = run(engine, views, max_tokens=6, cache_salt="a")
    for salt in ("b", None, ""):
        other = run(engine, views, max_tokens=6, cache_salt=salt)
        assert other.report.cached_tokens.model_dump() == {"verifier": 0, "base": 0, "drafter": 0}
        assert other.tokens == first.tokens
    assert run(engine, views, max_tokens=6, cache_salt="a").report.cached_tokens.drafter == 49


def test_the_arms_share_what_one_model_has_read() -> None:
    engine = tiny_engine()
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(2, 30)]
    run(engine, views, max_tokens=6)
    assert run(engine, views, arm="floor", max_tokens=6).report.cached_tokens.verifier == 49
    assert run(engine, views, arm="ceiling", max_tokens=6).report.cached_tokens.verifier == len(SYSTEM)
    assert run(engine, views, arm="drafter", max_tokens=6).report.cached_tokens.verifier == 49


def test_clear_forgets_everything() -> None:
    engine = tiny_engine()
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(1, 9)]
    tokens = run(engine, views, max_tokens=6).tokens
    assert engine.prefixes.num_bytes > 0
    engine.prefixes.clear()
    again = run(engine, views, max_tokens=6)
    assert again.report.cached_tokens.drafter == 0
    assert again.tokens == tokens


def test_memory_is_bounded_and_the_oldest_conversation_goes() -> None:
    one = tiny_engine()
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(1, 9)]
    run(one, views, max_tokens=6)
    bytes_of_one = one.prefixes.num_bytes

    engine = tiny_engine(options=EngineOptions(prefix_cache_bytes=2 * bytes_of_one))
    conversations = [(prompt(seed, 50), prompt(seed + 50, 29)) for seed in range(3)]
    for both in conversations:
        run(engine, both, max_tokens=6)
        assert engine.prefixes.num_bytes <= 2 * bytes_of_one
    cached = [
        run(engine, both, max_tokens=6).report.cached_tokens.drafter for both in reversed(conversations)
    ]
    assert cached == [49, 49, 0]
    none = tiny_engine(options=EngineOptions(prefix_cache_bytes=0))
    tokens = [run(none, views, max_tokens=6).tokens for _ in range(2)]
    assert tokens[0] == tokens[1]
    assert none.prefixes.num_bytes == 0


def test_a_trace_has_one_end_for_every_request() -> None:
    recorder = MemoryRecorder(captures_content=True)
    engine = tiny_engine(recorder=recorder)
    views = [*SYSTEM, *prompt(1, 30)], [*SYSTEM, *prompt(1, 9)]
    result = run(engine, views, max_tokens=7, request_id="whole", gamma=1.0)
    kinds = [event.event for event in recorder.events]
    assert kinds == ["request", *["block"] * result.report.blocks, "response"]
    blocks = [event for event in recorder.events if event.event == "block"]
    assert [event.index for event in blocks] == list(range(len(blocks)))  # type: ignore[attr-defined]
    assert "".join(event.text or "" for event in blocks) == result.text  # type: ignore[attr-defined]
    assert {event.request_id for event in recorder.events} == {"whole"}
    assert recorder.num_dropped == 0

    recorder.clear()
    stream = engine.decode(DecodeRequest(full=views[0], compressed=views[1], request_id="closed"))
    next(stream)
    stream.close()
    assert [event.event for event in recorder.events] == ["request", "block", "error"]
    error = recorder.events[-1]
    assert error.error_type == "RequestAbortedError"  # type: ignore[attr-defined]
    assert error.forwarded_tokens.drafter == 3  # type: ignore[attr-defined]
