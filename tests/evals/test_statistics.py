"""Intervals and tests against scipy, values worked out by hand, and simulations of known truth."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from evals.statistics import (
    bootstrap,
    compare_pairs,
    mean_difference,
    mean_estimate,
    mean_ratio,
    recovered_share,
    severity_trend,
    wilson,
)
from evals.statistics.paired import mcnemar


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(counts: tuple[int, int]) -> None:
    successes, num = counts
    theirs = scipy.stats.binomtest(successes, num).proportion_ci(0.95, method="wilson")
    ours = wilson(successes, num)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson_refuses_what_is_no_proportion() -> None:
    for successes, num in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ConfigurationError):
            wilson(successes, num)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_test(wins: int, losses: int) -> None:
    num = wins + losses
    theirs = scipy.stats.binomtest(min(wins, losses), num, 0.5).pvalue if num else 1.0
    assert mcnemar(wins, losses) == pytest.approx(theirs, rel=1e-9)


def test_mcnemar_of_many_pairs_does_not_overflow() -> None:
    assert 0 < mcnemar(3_100, 2_900) < 0.05


@pytest.mark.parametrize(("method", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_intervals_of_a_mean_are_scipys_within_the_draws_noise(method: str, theirs: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.exponential(1.0, 60).tolist()  # skewed: the two methods differ
    ours = bootstrap([values], lambda means: means[0], method=method)
    reference = scipy.stats.bootstrap((values,), np.mean, method=theirs, n_resamples=10_000, rng=rng)
    interval = reference.confidence_interval
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), abs=0.03)


def test_a_paired_difference_is_scipys_paired_bootstrap() -> None:
    rng = np.random.default_rng(6)
    left, right = rng.normal(0.6, 0.3, 80), rng.normal(0.5, 0.3, 80)
    ours = mean_difference(left.tolist(), right.tolist())
    theirs = scipy.stats.bootstrap(
        (left, right), lambda a, b: np.mean(a - b), paired=True, vectorized=False, n_resamples=4_000, rng=rng
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.012)
    assert ours.value == pytest.approx(float(np.mean(left - right)))


def test_pairs_are_drawn_together() -> None:
    left = [random.Random(i).random() for i in range(50)]
    constant = mean_difference([value + 0.2 for value in left], left)  # unpaired draws would spread widely
    low, high = constant.low, constant.high
    assert constant.value == pytest.approx(0.2)
    assert low is None or (low, high) == pytest.approx((0.2, 0.2))


def test_draws_repeat_themselves() -> None:
    values = [random.Random(i).random() for i in range(40)]
    assert mean_estimate(values) == mean_estimate(values)


def test_clusters_widen_the_interval_of_what_belongs_together() -> None:
    rng = random.Random(3)
    levels = [rng.random() for _ in range(25)]
    values = [level for level in levels for _ in range(8)]  # eight equal samples a cluster
    clusters = [str(i) for i in range(25) for _ in range(8)]
    apart, together = mean_estimate(values), mean_estimate(values, clusters)
    by_cluster = mean_estimate(levels)
    assert together.value == pytest.approx(apart.value)
    assert (together.low, together.high) == pytest.approx((by_cluster.low, by_cluster.high))
    assert together.low is not None
    assert together.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_unequal_clusters_count_by_their_samples() -> None:
    assert mean_estimate([1, 1, 1, 0], ["a", "a", "a", "b"]).value == 0.75


def test_where_there_is_no_interval_the_estimate_says_why() -> None:
    assert mean_estimate([1.0]).note == "one sample"
    assert mean_estimate([1.0, 0.0], ["a", "a"]).note == "one cluster"
    assert mean_estimate([0.5] * 9).note == "every draw is the same"
    tie = mean_difference([1.0, 0.0], [1.0, 0.0])
    assert (tie.value, tie.low, tie.high, tie.note) == (0.0, None, None, "every pair ties")


def test_what_is_no_table_of_samples_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one length"):
        bootstrap([[1.0], [1.0, 2.0]], lambda means: means[0])
    with pytest.raises(ConfigurationError, match="one length"):
        mean_estimate([])
    with pytest.raises(ConfigurationError, match="clusters"):
        mean_estimate([1.0, 2.0], ["a"])
    with pytest.raises(ConfigurationError, match="method"):
        bootstrap([[1.0]], lambda means: means[0], method="jackknife")


def test_wins_losses_and_ties_and_when_mcnemar_applies() -> None:
    left, right = [1.0, 1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    test = compare_pairs(left, right, is_binary=True)
    assert (test.num_wins, test.num_losses, test.num_ties) == (3, 1, 2)
    assert test.p_value == pytest.approx(0.625)  # 2 · (1 + 4) / 16
    assert test.difference.value == pytest.approx(1 / 3)
    assert compare_pairs(left, right).p_value is None
    assert compare_pairs(left, right, is_binary=True, clusters=list("aabbcc")).p_value is None
    assert compare_pairs([0.5, 1.0], [0.0, 1.0], is_binary=True).p_value is None


def test_a_ratio_of_means() -> None:
    ratio = mean_ratio([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0])
    assert ratio is not None
    assert ratio.value == pytest.approx(0.5)
    assert mean_ratio([1.0], [0.0]) is None


def test_recovered_share_by_hand() -> None:
    floor, ceiling = [0.0] * 40 + [1.0] * 60, [1.0] * 90 + [0.0] * 10
    arm = [1.0] * 15 + [0.0] * 25 + [1.0] * 60
    found = recovered_share(arm, floor, ceiling)
    assert found.status == "ok"
    assert found.share is not None
    assert found.share.value == pytest.approx((0.75 - 0.6) / (0.9 - 0.6))
    assert found.is_recovery


def test_recovered_share_of_ceiling_and_floor_themselves() -> None:
    floor, ceiling = [0.0] * 50 + [1.0] * 50, [1.0] * 100
    assert recovered_share(ceiling, floor, ceiling).share.value == 1.0  # type: ignore[union-attr]
    nothing = recovered_share(floor, floor, ceiling)
    assert nothing.share is not None
    assert nothing.share.value == 0.0
    assert not nothing.is_recovery


@pytest.mark.parametrize("ceiling", [[0.0, 1.0] * 20, [0.0] * 40])
def test_without_a_gap_the_share_is_undefined(ceiling: list[float]) -> None:
    found = recovered_share([1.0] * 40, [1.0, 0.0] * 20, ceiling)
    assert (found.status, found.share, found.is_recovery) == ("undefined", None, False)


def test_a_gap_that_is_not_established_gives_an_unbounded_share() -> None:
    floor = [0.0] * 21 + [1.0] * 19
    ceiling = [1.0] * 21 + [0.0] * 18 + [1.0]  # +3 of 40: far within chance
    found = recovered_share([1.0] * 40, floor, ceiling)
    assert found.status == "unbounded"
    assert found.share_without_gap > 0.025
    assert found.share is not None
    assert (found.share.low, found.share.high) == (-math.inf, math.inf)
    assert not found.is_recovery


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 1.0])] * 3), min_size=2, max_size=30))
def test_shares_are_never_not_a_number(rows: list[tuple[float, float, float]]) -> None:
    arm, floor, ceiling = (list(column) for column in zip(*rows, strict=True))
    found = recovered_share(arm, floor, ceiling)
    assert found.status in ("ok", "unbounded", "undefined")
    if found.share is not None and found.share.low is not None and found.share.high is not None:
        assert not math.isnan(found.share.low + (0 if math.isinf(found.share.low) else found.share.high))
        assert found.share.low <= found.share.high


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """Floor 0.3, arm 0.6, Ceiling 0.75, so a share of 2/3; seeded, with generous bounds."""
    rng = np.random.default_rng(11)
    num_runs, covered = 120, {"mean": 0, "difference": 0, "share": 0}
    for _ in range(num_runs):
        luck = rng.random(100)
        floor, arm, ceiling = ((0.7 * luck + 0.3 * rng.random(100)) for _ in range(3))
        columns = [_below(column, chance) for column, chance in ((floor, 0.3), (arm, 0.6), (ceiling, 0.75))]
        share = recovered_share(columns[1], columns[0], columns[2]).share
        difference, mean = mean_difference(columns[1], columns[0]), wilson(int(sum(columns[1])), 100)
        assert share is not None
        for name, estimate, truth in (
            ("mean", mean, 0.6),
            ("difference", difference, 0.3),
            ("share", share, 2 / 3),
        ):
            assert estimate.low is not None
            assert estimate.high is not None
            covered[name] += estimate.low <= truth <= estimate.high
    assert all(0.88 <= count / num_runs <= 0.995 for count in covered.values()), covered


def _below(values: np.ndarray, chance: float) -> list[float]:
    """1 where a value of 0.7·U + 0.3·V is below the chance's quantile, which is linear from 0.3/1.4 up."""
    assert 0.3 / 1.4 <= chance <= 1 - 0.3 / 1.4
    return (values < 0.15 + 0.7 * chance).astype(float).tolist()


def test_a_trend_grows_with_severity_or_does_not() -> None:
    gains = {500: [1.0] * 30 + [0.0] * 20, 1_000: [1.0] * 20 + [0.0] * 30, 2_000: [1.0] * 5 + [0.0] * 45}
    trend = severity_trend(gains)
    assert trend.sizes == (2_000, 1_000, 500)
    assert trend.gains == pytest.approx((0.1, 0.4, 0.6))
    assert trend.slope.value == pytest.approx(0.25)  # of the line through them, per halving
    assert trend.grows
    assert trend.is_monotone
    turned = severity_trend({500: gains[2_000], 1_000: gains[1_000], 2_000: gains[500]})
    assert not turned.grows
    assert turned.slope.value == pytest.approx(-0.25)
    flat = severity_trend({500: gains[1_000], 1_000: gains[1_000]})
    assert not flat.grows
    with pytest.raises(ConfigurationError, match="two"):
        severity_trend({500: [1.0]})
