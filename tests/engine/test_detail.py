"""Traces at level detail say why each token was emitted; otherwise decoding computes nothing more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.rule import verify_block
from asymspec_agents.engine.sampling import Sampling
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.trace import BlockEvent, MemoryRecorder, PositionRecord, ResponseEvent, measure

from .runs import run
from .tiny import VOCAB, tiny_engine, views

MODES = ("asymspec", "cda_only", "fixed_gate", "fused_greedy", "strict", "product")


def recorded(arm: str = "asymspec", **options: Any) -> tuple[Any, MemoryRecorder]:
    recorder = MemoryRecorder(captures_content=True, level="detail", num_alternatives=3)
    return run(tiny_engine(recorder=recorder), views(1), arm=arm, **options), recorder


def blocks_of(recorder: MemoryRecorder) -> list[BlockEvent]:
    return [event for event in recorder.events if isinstance(event, BlockEvent)]


def positions_of(recorder: MemoryRecorder) -> list[PositionRecord]:
    return [position for block in blocks_of(recorder) for position in block.positions or ()]


@pytest.mark.parametrize("bonus", ["rule", "verifier", "none"])
@pytest.mark.parametrize("mode", MODES)
def test_positions_agree_with_their_blocks_and_the_gate(mode: str, bonus: str) -> None:
    answered, recorder = recorded(mode=mode, bonus=bonus)
    assert answered.tokens == run(tiny_engine(), views(1), mode=mode, bonus=bonus).tokens
    for block in blocks_of(recorder):
        positions = block.positions or ()
        assert tuple(position.token_id for position in positions) == block.token_ids
        assert tuple(position.origin for position in positions) == block.origins
        for position, divergence in zip(positions, block.divergence, strict=False):
            assert position.divergence == pytest.approx(divergence, rel=1e-5)
    kept = [position for position in positions_of(recorder) if not position.is_trimmed]
    assert [position.token_id for position in kept] == answered.tokens
    assert "".join(position.text or "" for position in kept) == answered.text
    for position in positions_of(recorder):
        assert position.is_argmax == (position.argmax_id is None)
        alone = position.token_id if position.is_argmax else position.argmax_id
        assert len(position.best_t) == 3
        assert position.best_t[0][1] == alone
        if mode in ("asymspec", "cda_only", "fixed_gate") and position.origin != "bonus":
            assert position.p_t is not None
            assert position.p_b is not None
            assert position.gamma_eff is not None
            threshold = position.gamma_eff * position.p_b
            is_accepted = position.origin == "accepted"
            assert (
                math.isclose(position.p_t, threshold, rel_tol=1e-4)
                or (position.p_t > threshold) == is_accepted
            )
        if mode == "strict":
            assert position.is_argmax
            assert position.p_b is None


def test_detail_is_what_the_rule_read() -> None:
    generator = torch.Generator().manual_seed(3)
    t, a, b = (3 * torch.randn((2, 3, 11), generator=generator) for _ in range(3))
    drafts = a.argmax(dim=-1)
    rule = Rule("position", "context", gamma=0.7)
    result = verify_block(rule, drafts, a, b, t, num_alternatives=4)
    plain = verify_block(rule, drafts, a, b, t)
    assert plain.detail is None
    assert torch.equal(result.tokens, plain.tokens)
    detail = result.detail
    assert detail is not None
    assert detail.draft_a is not None
    assert detail.log_gamma is not None
    for row in range(2):
        for place in range(3):
            at = int(drafts[row, place])
            assert detail.draft_t[row, place] == pytest.approx(
                float(t[row, place].log_softmax(-1)[at]), abs=1e-5
            )
            assert detail.draft_a[row, place] == pytest.approx(
                float(a[row, place].log_softmax(-1)[at]), abs=1e-5
            )
            assert detail.argmax[row, place] == t[row, place].argmax()
            expected = math.log(0.7) - float(result.divergence[row, place]) / (place + 1)
            assert detail.log_gamma[row, place] == pytest.approx(expected, abs=1e-5)
            assert detail.best_t.ids[row, place].tolist() == t[row, place].topk(4).indices.tolist()


class _Operations(TorchDispatchMode):
    """Every operation that any device is asked for, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def operations() -> Iterator[list[str]]:
    with _Operations() as mode:
        yield mode.names


@pytest.mark.parametrize("arm", ["asymspec", "floor"])
@pytest.mark.parametrize("sampling", [None, Sampling(1.0, seed=1)], ids=["greedy", "sampled"])
def test_a_summary_adds_no_operation_to_decoding(arm: str, sampling: Sampling | None) -> None:
    if arm == "asymspec" and sampling is not None:
        pytest.skip("arms with a drafter are greedy")

    def operations_with(recorder: Recorder) -> list[str]:
        engine = tiny_engine(recorder=recorder)
        with operations() as names:
            run(engine, views(1), arm=arm, sampling=sampling, max_tokens=12)
        return list(names)

    without = operations_with(NULL_RECORDER)
    assert len(without) > 100
    assert operations_with(MemoryRecorder()) == without
    assert operations_with(MemoryRecorder(captures_content=True)) == without
    assert len(operations_with(MemoryRecorder(level="detail"))) > len(without)


def test_plain_decoding_has_positions_too() -> None:
    for sampling in (None, Sampling(1.0, seed=1)):
        answered, recorder = recorded("floor", sampling=sampling)
        positions = positions_of(recorder)
        assert [position.token_id for position in positions] == answered.tokens
        assert {position.origin for position in positions} == {"plain"}
        assert all(position.p_t is None and position.draft_id is None for position in positions)
        assert all(0 < (position.emitted_p_t or 0) <= 1 for position in positions)
        assert all(position.is_argmax for position in positions) == (sampling is None)


def test_without_contents_only_numbers_are_recorded() -> None:
    recorder = MemoryRecorder(level="detail")
    run(tiny_engine(recorder=recorder), views(1))
    positions = positions_of(recorder)
    assert positions
    for event in recorder.events:
        text = event.model_dump_json()
        assert not any("\u4e00" <= character <= chr(0x4E00 + VOCAB) for character in text)
    for position in positions:
        given = position.model_fields_set
        assert not given & {"token_id", "text", "token", "draft", "draft_id", "argmax", "argmax_id"}
        assert all(len(choice) == 1 for choice in position.best_t)
        assert position.is_argmax is not None


def test_the_trace_sums_to_the_report_and_tells_its_stages() -> None:
    answered, recorder = recorded(max_tokens=17)
    total, report = measure(recorder.events), answered.report
    assert (total.num_blocks, total.num_drafted, total.num_accepted) == (
        report.blocks,
        report.drafted,
        report.accepted,
    )
    assert (total.num_fused, total.num_bonus) == (report.fused, report.bonus)
    assert total.mean_divergence == pytest.approx(report.mean_divergence)
    response = next(event for event in recorder.events if isinstance(event, ResponseEvent))
    assert response.text == answered.text
    assert response.prefill_s is not None
    assert 0 < response.prefill_s <= response.elapsed_s
