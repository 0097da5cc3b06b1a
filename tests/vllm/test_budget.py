"""The size of the pool, and what one request may ask of it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError, ContextOverflowError
from vllm_asymspec.budget import DrafterShape, Limits, PoolShape, pool_shape, verifier_bytes
from vllm_asymspec.config import PluginConfig

DRAFTER = DrafterShape(
    num_layers=3, num_kv_heads=2, head_size=8, bytes_per_value=2, max_positions=1000, vocab_size=100
)
BLOCK_BYTES = 2 * 3 * 2 * 8 * 2 * 16


def limits(num_blocks: int = 100, *, max_positions: int = 1000, configured: int | None = None) -> Limits:
    return Limits(
        pool=PoolShape(num_blocks=num_blocks, block_size=16, block_bytes=BLOCK_BYTES),
        drafter=dataclasses.replace(DRAFTER, max_positions=max_positions),
        max_model_len=300,
        num_draft_tokens=2,
        num_steps_in_flight=2,
        configured_full_len=configured,
    )


def test_bytes_of_a_block() -> None:
    assert DRAFTER.block_bytes(16) == BLOCK_BYTES


def test_a_pool_of_given_bytes() -> None:
    config = PluginConfig(pool_bytes=10 * BLOCK_BYTES + 5)
    pool = pool_shape(config, DRAFTER, block_size=16, verifier_kv_bytes=1)
    assert (pool.num_blocks, pool.num_usable_blocks, pool.num_bytes) == (10, 9, 10 * BLOCK_BYTES)
    assert verifier_bytes(config, 11 * BLOCK_BYTES) == BLOCK_BYTES - 5


@given(available=st.integers(100 * BLOCK_BYTES, 2**40), fraction=st.floats(0.1, 0.9))
def test_pool_and_verifier_share_the_memory(available: int, fraction: float) -> None:
    config = PluginConfig(pool_fraction=fraction)
    left = verifier_bytes(config, available)
    pool = pool_shape(config, DRAFTER, block_size=16, verifier_kv_bytes=left)
    assert left + pool.num_bytes <= available + 1  # a byte of rounding
    assert pool.num_bytes > fraction * available - 2 * BLOCK_BYTES


def test_a_pool_too_small_for_any_request_is_refused() -> None:
    limits(3)
    with pytest.raises(ConfigurationError, match=rf"pool_bytes to {3 * BLOCK_BYTES:,}"):
        limits(2)


def test_a_pool_that_leaves_the_verifier_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="leaves nothing"):
        verifier_bytes(PluginConfig(pool_bytes=1000), 1000)


def test_what_is_kept_of_images_is_nobodys_else() -> None:
    assert verifier_bytes(PluginConfig(pool_bytes=100), 1000, kept_bytes=300) == 600
    with pytest.raises(ConfigurationError, match=r"image_cache_bytes=1,000 is all of the 1,000 bytes"):
        verifier_bytes(PluginConfig(), 1000, kept_bytes=1000)


def test_the_drafters_positions_limit_the_full_view() -> None:
    assert limits().max_full_len == 1000 - limits().num_lookahead_tokens
    assert limits(configured=500).max_full_len == 500
    with pytest.raises(ConfigurationError, match="max_full_len=1,000 is over 988"):
        limits(configured=1000)
    with pytest.raises(ConfigurationError, match="13 positions"):
        limits(max_positions=13)


def test_a_small_pool_limits_the_full_view() -> None:
    small = limits(20)
    assert small.max_full_len == (19 - 1) * 16 - small.num_lookahead_tokens
    small.check(num_full=small.max_full_len - 1, num_compressed=1, num_answer=1, has_base=True)


@given(
    num_blocks=st.integers(3, 80),
    num_full=st.integers(1, 1100),
    num_compressed=st.integers(1, 400),
    has_base=st.booleans(),
    configured=st.one_of(st.none(), st.integers(1, 988)),
)
def test_the_longest_answer_fits_and_a_longer_one_does_not(
    num_blocks: int, num_full: int, num_compressed: int, has_base: bool, configured: int | None
) -> None:
    checked = limits(num_blocks, configured=configured)
    views = {"num_full": num_full, "num_compressed": num_compressed}
    most = checked.max_answer_tokens(**views, has_base=has_base)
    if most:
        checked.check(**views, num_answer=most, has_base=has_base)
    with pytest.raises(ContextOverflowError) as caught:
        checked.check(**views, num_answer=max(most, 0) + 1, has_base=has_base)
    assert caught.value.num_tokens > caught.value.limit >= 0
    assert caught.value.view in ("full", "compressed")


def test_an_overflow_names_its_view_and_the_way_out() -> None:
    with pytest.raises(ContextOverflowError, match="full view has 1,000") as caught:
        limits().check(num_full=990, num_compressed=10, num_answer=10, has_base=True)
    assert (caught.value.view, caught.value.limit) == ("full", 988)
    with pytest.raises(ContextOverflowError, match="compressed view has 310") as caught:
        limits().check(num_full=90, num_compressed=300, num_answer=10, has_base=True)
    assert (caught.value.view, caught.value.limit) == ("compressed", 300)
    with pytest.raises(ContextOverflowError, match="pool_bytes") as caught:
        limits(20).check(num_full=290, num_compressed=200, num_answer=10, has_base=True)
    limits(20).check(num_full=caught.value.limit - 10, num_compressed=200, num_answer=10, has_base=True)
    limits(21).check(num_full=290, num_compressed=200, num_answer=10, has_base=False)


def test_a_base_view_is_held_to_the_drafters_positions() -> None:
    short = limits(max_positions=200)
    short.check(num_full=10, num_compressed=250, num_answer=10, has_base=False)
    with pytest.raises(ContextOverflowError, match="compressed"):
        short.check(num_full=10, num_compressed=250, num_answer=10, has_base=True)
    assert short.max_answer_tokens(num_full=10, num_compressed=250, has_base=True) == 0
