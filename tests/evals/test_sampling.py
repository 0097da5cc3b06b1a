"""Subsets are nested, fixed by their seed, and the same for whoever asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from evals.sample import Sample
from evals.sampling import checked_ids, chosen, missing_groups, shuffled
from tests.evals.made_up import made_samples

ids = st.lists(st.text(min_size=1), unique=True, max_size=30)


def _samples(names: list[str]) -> list[Sample]:
    return [Sample(suite="s", id=name, messages=()) for name in names]


def _ids(samples: tuple[Sample, ...]) -> list[str]:
    return [sample.id for sample in samples]


@given(ids, st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
def test_a_smaller_subset_begins_a_larger_one(names: list[str], n: int, m: int, seed: int) -> None:
    few, many = sorted((n, m))
    first = chosen("s", _samples(names), num_samples=few, seed=seed)
    assert _ids(first) == _ids(chosen("s", _samples(names), num_samples=many, seed=seed))[:few]


@given(ids, st.randoms(use_true_random=False))
def test_the_order_of_the_data_does_not_matter(names: list[str], random: object) -> None:
    mixed = list(names)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert _ids(shuffled("s", _samples(mixed))) == _ids(shuffled("s", _samples(names)))
    assert sorted(_ids(shuffled("s", _samples(names)))) == sorted(names)


@given(ids, st.integers(1, 10))
def test_further_samples_in_the_data_do_not_reorder_the_rest(names: list[str], num_more: int) -> None:
    more = [*names, *(f"more {number}\x00" for number in range(num_more))]
    kept = [name for name in _ids(shuffled("s", _samples(more))) if name in set(names)]
    assert kept == _ids(shuffled("s", _samples(names)))


def test_seeds_and_suites_have_orders_of_their_own() -> None:
    samples = made_samples(30)
    orders = [tuple(_ids(shuffled(suite, samples, seed))) for suite in ("a", "b") for seed in (0, 1)]
    assert len(set(orders)) == 4


def test_the_order_stays_what_it_is() -> None:
    """Runs are continued by later versions, so the order is pinned."""
    assert _ids(shuffled("made_up", made_samples(6))) == ["q2", "q4", "q3", "q0", "q5", "q1"]


def test_ids_and_groups_choose_together() -> None:
    samples = made_samples(8)
    kept = chosen(
        "s", samples, ids=frozenset({"q1", "q2", "q3"}), only={"parity": frozenset({"odd"})}, num_samples=5
    )
    assert sorted(_ids(kept)) == ["q1", "q3"]
    both = chosen("s", samples, only={"parity": frozenset({"odd", "even"})})
    assert len(both) == 8


def test_unknown_groups_and_values_are_told_with_what_there_is() -> None:
    samples = made_samples(4)
    assert missing_groups(samples, {"parity": frozenset({"odd"})}) is None
    assert missing_groups(samples, {"level": frozenset({"1"})}) == "group 'level' is unknown; groups: parity"
    assert missing_groups(samples, {"parity": frozenset({"odd", "prime"})}) == (
        "group 'parity' has no 'prime'; values: even, odd"
    )
    assert missing_groups([], {"a": frozenset("b")}) == "group 'a' is unknown; groups: none"


def test_data_without_samples_or_with_an_id_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="holds no sample"):
        checked_ids("s", [])
    with pytest.raises(ConfigurationError, match=r"1 ids stand twice in the data: 'a'"):
        checked_ids("s", _samples(["a", "b", "a"]))
