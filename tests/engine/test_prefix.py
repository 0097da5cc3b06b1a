"""Prefix reuse: the longest stored prefix is found, belongs to the caller, and memory stays bounded."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.prefix import PrefixCache, PrefixHit, Wanted
from asymspec_agents.errors import ConfigurationError

from .turns import common

UNLIMITED = 2**40
TINY_CACHE_BYTES = 2 * 4 * 256  # one layer, one head of one channel, the smallest capacity


def cache_of(tokens: list[int]) -> KVCache:
    """A cache whose keys are the tokens themselves."""
    cache = KVCache()
    extend(cache, tokens)
    return cache


def extend(cache: KVCache, tokens: list[int]) -> None:
    states = torch.tensor(tokens, dtype=torch.float32).reshape(1, 1, -1, 1)
    cache.update(states, states, 0)


def take(prefixes: PrefixCache, owner: Hashable, prompt: list[int]) -> PrefixHit:
    """What a call with one reader gets."""
    (hit,) = prefixes.take([Wanted(owner, prompt, 20)])
    return hit


def held(cache: KVCache) -> list[int]:
    """The tokens a cache was made of."""
    length = cache.length
    return [int(x) for x in cache.layers[0].keys[0, 0, :length, 0]] if length else []


sequences = st.lists(st.integers(0, 2), min_size=1, max_size=9)
owners = st.sampled_from(["a", "b"])


class Reuse(RuleBasedStateMachine):
    """Random calls against a plain list of what was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.prefixes = PrefixCache(UNLIMITED)
        self.stored: list[tuple[str, list[int]]] = []

    @rule(owner=owners, tokens=sequences)
    def put(self, owner: str, tokens: list[int]) -> None:
        self.prefixes.put(owner, tokens, cache_of(tokens))
        self.stored.append((owner, tokens))

    @rule(owner=owners, prompt=sequences, answer=sequences, finishes=st.booleans())
    def call(self, owner: str, prompt: list[int], answer: list[int], finishes: bool) -> None:
        hit = take(self.prefixes, owner, prompt)
        best = max((common(prompt[:-1], tokens) for o, tokens in self.stored if o == owner), default=0)
        assert hit.num_tokens == best
        assert held(hit.cache) == prompt[:best]
        whole = [*prompt, *answer] if finishes else prompt
        if len(whole) > best:
            extend(hit.cache, whole[best:])
        self.prefixes.put(owner, whole, hit.cache)
        self.stored.append((owner, whole))

    @rule()
    def clear(self) -> None:
        self.prefixes.clear()
        self.stored.clear()
        assert (len(self.prefixes), self.prefixes.num_bytes) == (0, 0)

    @invariant()
    def stores_no_sequence_within_another(self) -> None:
        distinct = {(owner, tuple(tokens)) for owner, tokens in self.stored}
        maximal = [
            (owner, tokens)
            for owner, tokens in distinct
            if not any(
                o == owner and len(other) > len(tokens) and other[: len(tokens)] == tokens
                for o, other in distinct
            )
        ]
        assert len(self.prefixes) == len(maximal)


TestReuse = Reuse.TestCase
TestReuse.settings = settings(max_examples=40, stateful_step_count=15)


def test_the_last_prompt_token_is_always_read_anew() -> None:
    prefixes = PrefixCache(UNLIMITED)
    prefixes.put("a", [1, 2, 3], cache_of([1, 2, 3]))
    assert take(prefixes, "a", [1, 2, 3]).num_tokens == 2
    assert take(prefixes, "a", [1]).num_tokens == 0
    assert take(prefixes, "a", [1, 2, 3, 4]).num_tokens == 3


def test_what_is_handed_out_belongs_to_the_caller() -> None:
    prefixes = PrefixCache(UNLIMITED)
    prefixes.put("a", [1, 2, 3, 4, 5], cache_of([1, 2, 3, 4, 5]))
    branch = take(prefixes, "a", [1, 2, 9, 9]).cache
    extend(branch, [9, 9, 9, 9])
    again = take(prefixes, "a", [1, 2, 3, 4, 5, 6])
    assert (again.num_tokens, held(again.cache)) == (5, [1, 2, 3, 4, 5])
    assert len(prefixes) == 0  # handed over whole, not copied
    assert take(prefixes, "a", [1, 2, 3]).num_tokens == 0


def test_readers_of_one_call_may_continue_the_same_sequence() -> None:
    """Two views of one model that were equal so far and part now."""
    for prompts in (
        ([1, 2, 3, 4, 4], [1, 2, 3, 5, 5], [1, 2, 9]),
        ([1, 2, 9], [1, 2, 3, 5, 5], [1, 2, 3, 4, 4]),
    ):
        prefixes = PrefixCache(UNLIMITED)
        prefixes.put("a", [1, 2, 3], cache_of([1, 2, 3]))
        hits = prefixes.take([Wanted("a", prompt, 20) for prompt in prompts])
        for hit, prompt in zip(hits, prompts, strict=True):
            assert held(hit.cache) == prompt[: hit.num_tokens]
            extend(hit.cache, prompt[hit.num_tokens :])
        assert sorted(hit.num_tokens for hit in hits) == [2, 3, 3]
        for hit, prompt in zip(hits, prompts, strict=True):
            assert held(hit.cache) == prompt
        assert len(prefixes) == 0


def test_owners_are_strangers() -> None:
    prefixes = PrefixCache(UNLIMITED)
    prefixes.put(("model", "tenant"), [1, 2, 3], cache_of([1, 2, 3]))
    for owner in (("model", None), ("other", "tenant"), "tenant"):
        assert take(prefixes, owner, [1, 2, 3, 4]).num_tokens == 0


def test_the_least_recently_used_goes_first() -> None:
    prefixes = PrefixCache(2 * TINY_CACHE_BYTES)
    prefixes.put("a", [1, 1], cache_of([1, 1]))
    prefixes.put("a", [2, 2], cache_of([2, 2]))
    assert take(prefixes, "a", [1, 9]).num_tokens == 1  # used, by a branch
    prefixes.put("a", [3, 3], cache_of([3, 3]))
    assert prefixes.num_bytes <= prefixes.max_bytes
    assert [take(prefixes, "a", [first, 0]).num_tokens for first in (1, 2, 3)] == [1, 0, 1]


def test_a_repeated_sequence_counts_as_used_and_is_kept_once() -> None:
    prefixes = PrefixCache(2 * TINY_CACHE_BYTES)
    prefixes.put("a", [1, 1, 1], cache_of([1, 1, 1]))
    prefixes.put("a", [2, 2], cache_of([2, 2]))
    prefixes.put("a", [1, 1], cache_of([1, 1]))
    assert len(prefixes) == 2
    prefixes.put("a", [3, 3], cache_of([3, 3]))
    assert take(prefixes, "a", [1, 1, 1, 0]).num_tokens == 3
    assert take(prefixes, "a", [2, 2]).num_tokens == 0


@pytest.mark.parametrize("max_bytes", [0, TINY_CACHE_BYTES - 1])
def test_what_cannot_fit_is_not_kept(max_bytes: int) -> None:
    prefixes = PrefixCache(max_bytes)
    prefixes.put("a", [1, 2], cache_of([1, 2]))
    assert (len(prefixes), prefixes.num_bytes) == (0, 0)


def test_bytes_count_the_room_to_spare() -> None:
    prefixes = PrefixCache(UNLIMITED)
    prefixes.put("a", [1], cache_of([1]))
    assert prefixes.num_bytes == TINY_CACHE_BYTES


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="prefix_cache_bytes=-1"):
        PrefixCache(-1)
    with pytest.raises(ValueError, match="holds 2 positions for 3 tokens"):
        PrefixCache(1).put("a", [1, 2, 3], cache_of([1, 2]))
    empty = PrefixCache(UNLIMITED)
    empty.put("a", [], KVCache())
    assert len(empty) == 0
