"""What the plugin asks the engine once, before the first request."""

from __future__ import annotations

from typing import Any

import vllm

from asymspec_agents.errors import ConfigurationError

from ..budget import DrafterShape, Limits, PoolShape
from ..compat import family_of
from .asked import Abilities
from .metrics import metrics
from .own_views import OwnViews
from .seen_views import SeenViews
from .state import PluginState, server_info

__all__ = ["LIMITS_METHOD", "limits_from", "read_state"]

LIMITS_METHOD = "asymspec_limits"  # of our worker


async def read_state(engine: Any, served_names: Any) -> PluginState:
    """The plugin's state over a running engine. Raises ConfigurationError where that is not AsymSpec's."""
    config = engine.vllm_config
    speculative = config.speculative_config
    worker = str(config.parallel_config.worker_cls)
    if speculative is None or not worker.startswith("vllm_asymspec."):
        raise ConfigurationError(
            f"the endpoint plugin `asymspec` is on, but worker_cls={worker}: start the server with "
            "`asymspec vllm serve`, give the flags it would give, or take asymspec out of VLLM_PLUGINS"
        )
    limits = limits_from((await engine.collective_rpc(LIMITS_METHOD))[0])
    tokenizer = engine.renderer.tokenizer
    seen_views = SeenViews.of(config, tokenizer)
    family, drafter = family_of(config), str(speculative.draft_model_config.model)
    return PluginState(
        engine=engine,
        info=server_info(
            served_names,
            drafter,
            limits,
            vllm.__version__,
            images=None if seen_views is None else seen_views.limits,
            is_cross_family=family is not None,
        ),
        limits=limits,
        abilities=Abilities(
            speculative.num_speculative_tokens,
            bool(config.use_v2_model_runner),
            None if seen_views is None else seen_views.limits,
            None if family is None else OwnViews(family, drafter, tokenizer, str(config.model_config.model)),
        ),
        metrics=metrics(),
        seen_views=seen_views,
    )


def limits_from(values: dict[str, Any]) -> Limits:
    """Limits from their values, as the worker sends them."""
    return Limits(
        **{**values, "pool": PoolShape(**values["pool"]), "drafter": DrafterShape(**values["drafter"])}
    )
