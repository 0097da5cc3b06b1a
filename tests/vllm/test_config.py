"""The plugin's settings."""

from __future__ import annotations

import pytest

from asymspec_agents.errors import ConfigurationError
from vllm_asymspec.config import PluginConfig


@pytest.mark.parametrize("additional", [None, {}, {"other": 1}, {"asymspec": {}}, object()])
def test_without_settings_there_are_defaults(additional: object) -> None:
    assert PluginConfig.of(additional) == PluginConfig()


def test_settings_are_read() -> None:
    given = {"max_full_len": 4096, "pool_bytes": 10**9, "prefill_tokens": 100, "max_requests": 3}
    config = PluginConfig.of({"asymspec": given, "other": 1})
    assert config == PluginConfig(**given)
    assert config.idle_prefill_tokens == 400


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pool_byte": 1}, r"asymspec\.pool_byte is unknown; settings: max_full_len"),
        ("yes", "not an object"),
        ([], "not an object"),
        ({"pool_bytes": 0}, "pool_bytes=0"),
        ({"pool_bytes": "1GB"}, "pool_bytes='1GB'"),
        ({"max_full_len": True}, "max_full_len=True"),
        ({"max_full_len": 1.5}, "max_full_len=1.5"),
        ({"prefill_tokens": None}, "prefill_tokens=None"),
        ({"max_requests": -1}, "max_requests=-1"),
        ({"max_images": 0}, "max_images=0"),
        ({"max_image_pixels": "many"}, "max_image_pixels='many'"),
        ({"image_cache_bytes": 1.5}, "image_cache_bytes=1.5"),
        ({"pool_fraction": 1}, "pool_fraction=1"),
        ({"pool_fraction": float("nan")}, "pool_fraction=nan"),
        ({"pool_fraction": True}, "pool_fraction=True"),
        ({"pool_fraction": "half"}, "pool_fraction='half'"),
    ],
)
def test_wrong_settings_are_named(given: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        PluginConfig.of({"asymspec": given})


@pytest.mark.parametrize(
    ("max_requests", "max_num_seqs", "num_slots"), [(None, 256, 64), (None, 8, 8), (100, 8, 100), (1, 8, 1)]
)
def test_slots_follow_vllms_own_limit_unless_set(
    max_requests: int | None, max_num_seqs: int, num_slots: int
) -> None:
    assert PluginConfig(max_requests=max_requests).num_slots(max_num_seqs) == num_slots
