"""The plugin's own settings: `additional_config["asymspec"]` of a vLLM configuration.

K, the number of draft tokens, is the speculative configuration's `num_speculative_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.pixels import MAX_SEEN_PIXELS

__all__ = ["CONFIG_KEY", "PluginConfig"]

CONFIG_KEY = "asymspec"
IDLE_FACTOR = 4


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """How much the drafter's views may take; validated at construction.

    `max_full_len`: longest full view with its answer, in tokens; None is what the drafter's positions allow.
    `pool_bytes`: bytes of the drafter's keys and values on each rank; None takes `pool_fraction` of the
    memory that vLLM has for all keys and values. `prefill_tokens`: how many tokens of views the drafter reads
    in a step in which others decode; a step with nothing else to do reads `idle_prefill_tokens`.
    `max_requests`: AsymSpec requests read or answered at a time; None is 64, or vLLM's `max_num_seqs` where
    that is less.

    Of a drafter that sees: a request has at most `max_images` images of `max_image_pixels` each;
    `image_cache_bytes` of what its tower made of them are kept on each rank.

    `vocab_map` lets a drafter with another vocabulary take part: the file of a map, or "auto".
    """

    max_full_len: int | None = None
    pool_bytes: int | None = None
    pool_fraction: float = 0.3
    prefill_tokens: int = 512
    max_requests: int | None = None
    max_images: int = 16
    max_image_pixels: int = MAX_SEEN_PIXELS
    image_cache_bytes: int = 268_435_456
    vocab_map: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_full_len", "pool_bytes", "max_requests"):
            if getattr(self, name) is not None:
                self._check_count(name)
        for name in ("prefill_tokens", "max_images", "max_image_pixels", "image_cache_bytes"):
            self._check_count(name)
        if self.vocab_map is not None and (not isinstance(self.vocab_map, str) or not self.vocab_map):
            raise ConfigurationError(
                f'{CONFIG_KEY}.vocab_map={self.vocab_map!r} is neither "auto" nor the path of a map'
            )
        fraction = self.pool_fraction
        if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 < fraction < 1:
            raise ConfigurationError(
                f"{CONFIG_KEY}.pool_fraction={fraction!r} is outside (0, 1); "
                "it is the drafter's share of the memory for keys and values"
            )

    def _check_count(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{CONFIG_KEY}.{name}={value!r} is not a whole number from 1")

    @property
    def idle_prefill_tokens(self) -> int:
        """Tokens of views read in a step in which no request decodes or waits to."""
        return IDLE_FACTOR * self.prefill_tokens

    def num_slots(self, max_num_seqs: int) -> int:
        """How many AsymSpec requests have a slot in the worker at a time."""
        return min(64, max_num_seqs) if self.max_requests is None else self.max_requests

    @classmethod
    def of(cls, additional_config: object) -> PluginConfig:
        """The settings in vLLM's `additional_config`; the defaults where it has none of ours.

        Raises ConfigurationError for unknown keys and values out of range.
        """
        if not isinstance(additional_config, Mapping):  # vLLM allows an object of somebody's own there
            return cls()
        given: Any = additional_config.get(CONFIG_KEY, {})
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"additional_config.{CONFIG_KEY}={given!r} is not an object")
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(name) for name in given if name not in known)
        if unknown:
            raise ConfigurationError(f"{CONFIG_KEY}.{unknown[0]} is unknown; settings: {', '.join(known)}")
        return cls(**given)
