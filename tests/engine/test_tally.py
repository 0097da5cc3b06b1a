"""A request's counts: what adds up to the report."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.engine.loop import Block
from asymspec_agents.engine.tally import Tally
from asymspec_agents.protocol import AsymSpecReport, CachedTokens


def report_of(blocks: list[Block], num_places: int) -> AsymSpecReport:
    tally = Tally(num_places)
    for block in blocks:
        tally.add(block)
    return tally.report(
        mode="asymspec",
        fallback=None,
        verifier_prompt_tokens=3,
        drafter_prompt_tokens=9,
        cached_tokens=CachedTokens(verifier=1, base=2, drafter=8),
    )


def test_nothing_yet() -> None:
    report = report_of([], 3)
    assert (report.blocks, report.drafted, report.accepted, report.mean_divergence) == (0, 0, 0, 0.0)
    assert report.accepted_per_position == (0, 0, 0)


def test_counts_by_hand() -> None:
    blocks = [
        Block((5, 6, 7), ("accepted", "accepted", "accepted"), 3, (0.1, 0.2, 0.3)),
        Block((5, 6), ("accepted", "fused"), 3, (0.0, 0.4)),
        Block((5,), ("fused",), 3, (0.6,)),
        Block((5, 6, 7, 8), ("accepted", "accepted", "accepted", "bonus"), 3, (0.0, 0.0, 0.0)),
    ]
    report = report_of(blocks, 3)
    assert (report.blocks, report.drafted) == (4, 12)
    assert (report.accepted, report.fused, report.bonus) == (7, 2, 1)
    assert report.accepted_per_position == (3, 2, 2)
    assert abs(report.mean_divergence - 1.6 / 9) < 1e-12
    assert (report.verifier_prompt_tokens, report.drafter_prompt_tokens) == (3, 9)
    assert report.cached_tokens == CachedTokens(verifier=1, base=2, drafter=8)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=20))
def test_every_emitted_token_is_counted_once(shapes: list[tuple[int, bool]]) -> None:
    blocks = []
    for num_accepted, has_bonus in shapes:
        origins = ("accepted",) * num_accepted + (("bonus",) if has_bonus else ("fused",))
        blocks.append(Block((1,) * len(origins), origins, 4, (0.5,) * num_accepted))  # type: ignore[arg-type]
    report = report_of(blocks, 4)
    assert report.accepted + report.fused + report.bonus == sum(len(b.tokens) for b in blocks)
    assert sum(report.accepted_per_position) == report.accepted
    assert list(report.accepted_per_position) == sorted(report.accepted_per_position, reverse=True)
    assert report.accepted <= report.drafted == 4 * len(blocks)
