"""How large the drafter's pool is, and what one request may ask of it.

Scheduler and worker compute the pool from the same values with the same formula, so that a block the
scheduler hands out exists in every worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from asymspec_agents.errors import ConfigurationError, ContextOverflowError

from .config import CONFIG_KEY, PluginConfig

__all__ = ["DrafterShape", "Limits", "PoolShape", "pool_shape", "verifier_bytes"]

NUM_RESERVED_BLOCKS = 1  # block 0, for rows that only pad a batch
SHORTEST = 2  # a prompt and an answer of one token each


@dataclass(frozen=True, slots=True)
class DrafterShape:
    """What of the drafter decides the size of its keys and values; heads are those of one rank."""

    num_layers: int
    num_kv_heads: int
    head_size: int
    bytes_per_value: int
    max_positions: int
    vocab_size: int

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block of keys and values in all layers, on one rank."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_size * self.bytes_per_value * block_size


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The pool: blocks 0 to `num_blocks`-1 of `block_size` tokens; block 0 is never handed out."""

    num_blocks: int
    block_size: int
    block_bytes: int

    @property
    def num_usable_blocks(self) -> int:
        """Blocks that views can have."""
        return self.num_blocks - NUM_RESERVED_BLOCKS

    @property
    def num_bytes(self) -> int:
        """Bytes of all blocks, on one rank."""
        return self.num_blocks * self.block_bytes

    def blocks_of(self, num_tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-num_tokens // self.block_size)


def verifier_bytes(config: PluginConfig, available_bytes: int, kept_bytes: int = 0) -> int:
    """The part of the memory for keys and values that is the verifier's, less what is kept for images.

    Raises ConfigurationError where nothing is left.
    """
    if kept_bytes >= available_bytes:
        raise ConfigurationError(
            f"{CONFIG_KEY}.image_cache_bytes={kept_bytes:,} is all of the {available_bytes:,} bytes that "
            "vLLM has for keys and values; lower it, or raise gpu_memory_utilization"
        )
    available_bytes -= kept_bytes
    if config.pool_bytes is None:
        return int(available_bytes * (1 - config.pool_fraction))
    left = available_bytes - config.pool_bytes
    if left <= 0:
        raise ConfigurationError(
            f"{CONFIG_KEY}.pool_bytes={config.pool_bytes:,} leaves nothing of the {available_bytes:,} bytes "
            "that vLLM has for keys and values; lower it, or raise gpu_memory_utilization"
        )
    return left


def pool_shape(
    config: PluginConfig, drafter: DrafterShape, *, block_size: int, verifier_kv_bytes: int
) -> PoolShape:
    """The pool. `verifier_kv_bytes`: the size of the verifier's cache in vLLM's KV cache configuration."""
    if config.pool_bytes is None:
        num_bytes = int(verifier_kv_bytes * config.pool_fraction / (1 - config.pool_fraction))
    else:
        num_bytes = config.pool_bytes
    block_bytes = drafter.block_bytes(block_size)
    return PoolShape(num_blocks=num_bytes // block_bytes, block_size=block_size, block_bytes=block_bytes)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for; validated at construction.

    `num_draft_tokens` is K, `num_steps_in_flight` how many steps vLLM schedules ahead of their results (2
    when scheduling is asynchronous, else 1). `max_growth`: tokens by which a step may lengthen the drafter's
    views beyond what it emits, as a drafter of another family may spell a token with many of its own.
    """

    pool: PoolShape
    drafter: DrafterShape
    max_model_len: int
    num_draft_tokens: int
    num_steps_in_flight: int
    configured_full_len: int | None = None
    max_growth: int = 0

    def __post_init__(self) -> None:
        most = self._num_positions
        if most < SHORTEST:
            raise ConfigurationError(
                f"the drafter has {self.drafter.max_positions} positions, too few for "
                f"num_speculative_tokens={self.num_draft_tokens}"
            )
        if self.configured_full_len is not None and self.configured_full_len > most:
            raise ConfigurationError(
                f"{CONFIG_KEY}.max_full_len={self.configured_full_len:,} is over {most:,}, the most that the "
                f"drafter's {self.drafter.max_positions:,} positions allow; lower it, or scale its rope"
            )
        num_needed = NUM_RESERVED_BLOCKS + 2 * self.blocks_of_view(SHORTEST)
        if self.pool.num_blocks < num_needed:
            raise ConfigurationError(
                f"the drafter's pool of {self.pool.num_bytes:,} bytes holds no request at all; set "
                f"{CONFIG_KEY}.pool_bytes to {num_needed * self.pool.block_bytes:,} or more, better much more"
            )

    @property
    def num_lookahead_tokens(self) -> int:
        """Positions behind a view's last token that steps on their way may write."""
        num_steps = self.num_steps_in_flight
        return (num_steps + 2) * (self.num_draft_tokens + 1) + num_steps * self.max_growth

    @property
    def max_full_len(self) -> int:
        """The longest full view with its answer: by the settings, the drafter's positions, and the pool."""
        return min(self._max_readable_len, self._max_len_in_pool(SHORTEST))

    @property
    def _max_readable_len(self) -> int:
        return min(self._num_positions, self.configured_full_len or self._num_positions)

    def _max_len_in_pool(self, num_base: int) -> int:
        """The longest full view that the pool holds beside a base view of that length (0: there is none)."""
        num_blocks = self.pool.num_usable_blocks - (self.blocks_of_view(num_base) if num_base else 0)
        return max(num_blocks * self.pool.block_size - self.num_lookahead_tokens, 0)

    @property
    def _num_positions(self) -> int:
        return self.drafter.max_positions - self.num_lookahead_tokens

    def blocks_of_view(self, num_tokens: int) -> int:
        """Blocks that a view of so many tokens, answer included, may come to need."""
        return self.pool.blocks_of(num_tokens + self.num_lookahead_tokens)

    def holds(self, num_full: int, num_base: int | None) -> bool:
        """Whether views of these lengths have room, their answer included; None: there is no base view."""
        return (
            num_full <= self._max_readable_len
            and (num_base or 0) <= self._num_positions
            and num_full <= self._max_len_in_pool(num_base or 0)
        )

    def max_answer_tokens(
        self, *, num_full: int, num_compressed: int, has_base: bool, num_base: int | None = None
    ) -> int:
        """The longest answer that views of these lengths leave room for; below 1 they don't fit at all.

        `num_base`: the compressed view's length for a drafter that has tokens of its own for it.
        """
        base = (num_compressed if num_base is None else num_base) if has_base else None
        num_room = min(self._max_readable_len - num_full, self.max_model_len - num_compressed)

        def fits(num_answer: int) -> bool:
            return self.holds(num_full + num_answer, None if base is None else base + num_answer)

        if num_room < 1 or not fits(1):
            return 0
        low, high = 1, num_room
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low

    def check(
        self,
        *,
        num_full: int,
        num_compressed: int,
        num_answer: int,
        has_base: bool,
        num_base: int | None = None,
    ) -> None:
        """Raises ContextOverflowError for a request that can never be served, naming view and limit."""
        advice = f"{num_answer:,} of them are for the answer"
        base = num_compressed if num_base is None else num_base
        readings = [(num_compressed, self.max_model_len)]
        if has_base:
            readings.append((base, self._num_positions))
        length, limit = min(readings, key=lambda reading: reading[1] - reading[0])
        if length + num_answer > limit:
            raise ContextOverflowError("compressed", length + num_answer, limit, advice)
        in_pool = self._max_len_in_pool(base + num_answer if has_base else 0)
        limit = min(self._max_readable_len, in_pool)
        if num_full + num_answer > limit:
            if limit == in_pool:
                advice += f", and no more fits into the drafter's pool; raise {CONFIG_KEY}.pool_bytes"
            raise ContextOverflowError("full", num_full + num_answer, limit, advice)
