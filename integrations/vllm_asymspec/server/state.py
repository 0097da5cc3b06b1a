"""What the plugin's routes know of the server they are part of, read once at its start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from asymspec_agents._version import __version__
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.vocab import MAPPED_DELTAS
from asymspec_agents.wire.handshake import ServerInfo

from ..budget import Limits
from .asked import Abilities
from .metrics import Metrics
from .pictures import ImageLimits
from .seen_views import SeenViews

__all__ = ["PluginState", "server_info"]


@dataclass(frozen=True, slots=True)
class PluginState:
    """The plugin's part of the application's state."""

    engine: Any
    info: ServerInfo
    limits: Limits
    abilities: Abilities
    metrics: Metrics
    seen_views: SeenViews | None = None


def server_info(
    served_names: Any,
    drafter: str,
    limits: Limits,
    vllm_version: str,
    *,
    images: ImageLimits | None = None,
    is_cross_family: bool = False,
) -> ServerInfo:
    """What `/v1/asymspec` says: the longest prompts leave room for one token of answer."""
    name = served_names if isinstance(served_names, str) else served_names[0]
    is_path = "\\" in drafter or drafter.startswith((".", "/", "~"))
    return ServerInfo(
        verifier=name,
        drafter=PurePath(drafter).name if is_path else drafter,
        modes=tuple(m for m, rule in MODES.items() if not is_cross_family or rule.delta in MAPPED_DELTAS),
        max_verifier_tokens=limits.max_model_len - 1,
        max_drafter_tokens=limits.max_full_len - 1,
        tokenize=True,
        sees_images=images is not None,
        max_images=None if images is None else images.options.max_images,
        max_image_pixels=None if images is None else images.options.max_image_pixels,
        cross_family=is_cross_family,
        server=f"vllm/{vllm_version} asymspec-agents/{__version__}",
    )
