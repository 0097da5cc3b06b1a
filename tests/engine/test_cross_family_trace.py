"""What a trace says of a drafter of another family: counts that add up, and tokens in the verifier's ids."""

from __future__ import annotations

from typing import Any

import pytest

from asymspec_agents.trace import BlockEvent, MemoryRecorder, PositionRecord, ResponseEvent, measure
from tests.decoding.made_tokenizers import made, transcriber

from .two_families import PAIRS, prompts, run, two_family_engine


def _recorded(verifier: str, drafter: str, **options: Any) -> tuple[Any, MemoryRecorder]:
    recorder = MemoryRecorder(captures_content=True, level="detail", num_alternatives=3)
    engine = two_family_engine(verifier, drafter, recorder=recorder)
    return run(engine, prompts(verifier, drafter, 1), **options), recorder


def _positions(recorder: MemoryRecorder) -> list[PositionRecord]:
    blocks = [event for event in recorder.events if isinstance(event, BlockEvent)]
    return [position for block in blocks for position in block.positions or ()]


@pytest.mark.parametrize(("verifier", "drafter"), PAIRS)
def test_counts_are_those_of_the_report_and_what_was_read_is_counted_once(
    verifier: str, drafter: str
) -> None:
    result, recorder = _recorded(verifier, drafter)
    metrics, report = measure(recorder.events), result.report
    assert (metrics.num_blocks, metrics.num_drafted) == (report.blocks, report.drafted)
    assert (metrics.num_accepted, metrics.num_fused) == (report.accepted, report.fused)
    never = (0,) * (len(report.accepted_per_position) - len(metrics.accepted_per_position))
    assert (*metrics.accepted_per_position, *never) == report.accepted_per_position
    assert metrics.prompt_tokens.drafter == report.drafter_prompt_tokens
    (response,) = [event for event in recorder.events if isinstance(event, ResponseEvent)]
    assert response.text == result.text
    history = transcriber(verifier, drafter).begin()
    history.push(result.tokens)
    read = response.forwarded_tokens.drafter
    most = report.drafter_prompt_tokens + len(history.tokens) + 3 * report.blocks + history.num_replaced
    assert report.drafter_prompt_tokens <= read <= most


def test_positions_are_of_the_verifiers_tokens_and_drafts_of_mapped_ones() -> None:
    result, recorder = _recorded("words", "digits")
    kept = [position for position in _positions(recorder) if not position.is_trimmed]
    assert [position.token_id for position in kept] == result.tokens
    pairs = transcriber("words", "digits").to_drafter
    for position in kept:
        drafted = position.token_id if position.draft_id is None else position.draft_id
        if position.p_a is not None:
            assert drafted in pairs
            assert position.p_a > 0
        assert all(choice[1] in pairs for choice in position.best_a or ())


def test_the_drafters_own_answer_is_recorded_in_its_own_tokens() -> None:
    result, recorder = _recorded("words", "digits", arm="drafter")
    kept = [position for position in _positions(recorder) if not position.is_trimmed]
    assert [position.token_id for position in kept] == result.tokens
    assert result.text.startswith("".join(position.text or "" for position in kept))
    assert result.text == made("digits").decode(result.tokens, skip_special_tokens=True)
