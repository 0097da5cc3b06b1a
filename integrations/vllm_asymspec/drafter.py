"""The drafter in a worker: its weights, loaded once, and the pool's tensors that hold both of its views.

It is an ordinary model of vLLM's with ordinary attention layers, but these belong to no KV cache group of the
engine: their cache is the pool, and what a forward reads and writes there is said by `Rows`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asymspec_agents.errors import ConfigurationError

from .budget import PoolShape
from .compat_worker import (
    AttentionLayerBase,
    BatchDescriptor,
    CUDAGraphMode,
    FullAttentionSpec,
    KVCacheGroupSpec,
    VllmConfig,
    allocate_kv_cache,
    bind_kv_cache_to_layers,
    build_attn_metadata,
    customize_attention_spec,
    get_draft_load_config,
    get_kv_cache_config_from_groups,
    get_layers_from_vllm_config,
    get_model,
    init_attn_backend,
    map_kv_caches_to_kernel_blocks,
    replace,
    set_forward_context,
    set_model_tag,
)
from .config import PluginConfig
from .rows import Rows
from .seen import Shown
from .sight import Sight
from .slots import on_device
from .vision import largest_image, with_limits

__all__ = ["Drafter"]

PREFIX = "asymspec_drafter"


class Drafter:
    """Load it with the verifier's weights, allocate its pool after the verifier's cache, then read rows."""

    def __init__(
        self,
        vllm_config: VllmConfig,
        device: torch.device,
        *,
        max_tokens: int,
        max_rows: int,
        max_positions: int,
        plugin: PluginConfig,
    ) -> None:
        self.device = device
        self.max_tokens = max_tokens
        self.sight: Sight | None = None
        self._plugin = plugin
        self._has_looked = False
        self.config = _drafter_config(vllm_config, max_tokens, max_rows, max_positions)
        if self.config.model_config.is_multimodal_model:
            self.config.model_config = with_limits(self.config.model_config, plugin)
        self.layer_names: list[str] = []
        self._model: Any = None
        self._kv_cache_config: Any = None
        self._attn_groups: Any = None

    @property
    def logits_dtype(self) -> torch.dtype:
        """The type of the logits."""
        dtype: torch.dtype = self.config.model_config.head_dtype
        return dtype

    def load(self) -> None:
        """Loads the weights; the model's layers enter the forward context that all models share."""
        before = set(self._layers())
        with set_model_tag(PREFIX):
            self._model = get_model(
                vllm_config=self.config,
                prefix=PREFIX,
                load_config=get_draft_load_config(self.config),
            )
        if self.config.model_config.is_multimodal_model:
            self.sight = Sight(self._model, self.device, self._plugin.image_cache_bytes)
        layers = self._layers()
        self.layer_names = [name for name in layers if name not in before]
        for name in self.layer_names:
            if not isinstance(layers[name].get_kv_cache_spec(self.config), FullAttentionSpec):
                raise ConfigurationError(
                    f"the drafter's layer {name} doesn't attend to all positions (a sliding window, or a "
                    "state in place of keys and values); take a drafter whose layers all do"
                )

    @property
    def model(self) -> Any:
        """The model; there from `load` on."""
        return self._model

    def allocate(self, pool: PoolShape) -> None:
        """Makes the pool and binds the layers to it; the verifier's cache comes first, for the layout."""
        layers = self._layers()
        first = layers[self.layer_names[0]]
        spec = customize_attention_spec(first.get_attn_backend(), first.get_kv_cache_spec(self.config))
        group = KVCacheGroupSpec(self.layer_names, spec)
        cache_config = self.config.cache_config
        override, cache_config.num_gpu_blocks_override = cache_config.num_gpu_blocks_override, None
        try:  # the override is meant for the verifier's blocks
            kv_cache_config = get_kv_cache_config_from_groups(self.config, [group], pool.num_bytes)
        finally:
            cache_config.num_gpu_blocks_override = override
        self._attn_groups, _, kernel_block_sizes = init_attn_backend(
            kv_cache_config, self.config, self.device, active_layer_names=set(self.layer_names)
        )
        if kv_cache_config.num_blocks < pool.num_blocks or spec.block_size != pool.block_size:
            raise ConfigurationError(
                f"the pool has {kv_cache_config.num_blocks} blocks of {spec.block_size} tokens here, "
                f"{pool.num_blocks} of {pool.block_size} in the scheduler: the drafter's attention backend "
                "pads keys and values in a way the budget doesn't know"
            )
        self._kv_cache_config = kv_cache_config
        caches = allocate_kv_cache(
            kv_cache_config, self.device, cache_config.get_resolved_kv_cache_layout(), kernel_block_sizes
        )
        bind_kv_cache_to_layers(
            map_kv_caches_to_kernel_blocks(caches, self._attn_groups[0]),
            self.config.compilation_config.static_forward_context,
            kv_cache_groups=kv_cache_config.kv_cache_groups,
        )

    def free(self) -> None:
        """Lets the pool go, after a run that only measured memory."""
        for name in self.layer_names:
            self._layers()[name].kv_cache = torch.empty(0, device=self.device)
        self._attn_groups = self._kv_cache_config = None

    def read(self, rows: Rows) -> Tensor:
        """Hidden states [N, hidden]; keys and values go to their places in the pool."""
        num_rows, num_tokens = len(rows.query_lens), int(rows.query_lens.sum())
        starts = np.concatenate(([0], np.cumsum(rows.query_lens)))
        starts_cpu = torch.as_tensor(starts, dtype=torch.int32)
        metadata = build_attn_metadata(
            self._attn_groups,
            num_rows,
            num_tokens,
            on_device(starts, torch.int32, self.device),
            starts_cpu,
            int(rows.query_lens.max()),
            rows.lengths,
            int(rows.length_bounds.max()),
            [rows.tables],
            rows.places[None],
            self._kv_cache_config,
            seq_lens_cpu_upper_bound=torch.as_tensor(rows.length_bounds, dtype=torch.int32),
            positions=rows.positions if rows.positions.ndim == 1 else rows.positions[0],
        )
        places = dict.fromkeys(self.layer_names, rows.places)
        return self._forward(rows.tokens.int(), rows.positions, metadata, places, rows.shown)

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [n, logits_size], the same on every rank."""
        logits: Tensor = self._model.compute_logits(hidden)
        return logits

    def dummy_run(self, num_tokens: int, num_logits: int) -> Tensor:
        """A forward without attention, to measure memory or compile; logits [num_logits, logits_size].

        The first is the one that vLLM measures: before it, the tower looks at the largest image.
        """
        if self.sight is not None and not self._has_looked:
            self._has_looked = True
            self.sight.run(largest_image(self.config.model_config))
        num_tokens = min(num_tokens, self.max_tokens)
        tokens = torch.zeros(num_tokens, dtype=torch.int32, device=self.device)
        hidden = self._forward(tokens, tokens.long(), None, {})
        return self.logits(hidden[:1].expand(num_logits, -1).contiguous())

    def _forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        metadata: Any,
        places: dict[str, Tensor],
        shown: Sequence[Shown] = (),
    ) -> Tensor:
        inputs: dict[str, Any] = {"input_ids": tokens}
        if self.sight is not None:  # always embedded: a compiled model takes ids or embeddings, not both
            inputs = {"input_ids": None, "inputs_embeds": self.sight.embed(tokens, shown)}
        with set_forward_context(
            metadata,
            self.config,
            num_tokens=len(tokens),
            cudagraph_runtime_mode=CUDAGraphMode.NONE,
            slot_mapping=places,
            batch_descriptor=BatchDescriptor(len(tokens)),
        ):
            hidden: Tensor = self._model(positions=self._all_dims(positions), **inputs)
        return hidden

    def _all_dims(self, positions: Tensor) -> Tensor:
        """Positions as the model takes them: for M-RoPE with a row for each dimension, equal for text."""
        model = self.config.model_config
        if not model.uses_mrope or positions.ndim > 1:
            return positions
        return positions.expand(model.mrope_num_dims, -1).contiguous()

    def _layers(self) -> dict[str, Any]:
        layers: dict[str, Any] = get_layers_from_vllm_config(self.config, AttentionLayerBase)
        return layers


def _drafter_config(vllm_config: Any, max_tokens: int, max_rows: int, max_positions: int) -> Any:
    """vLLM's configuration with the drafter as its model.

    Attention backends size their buffers by it, so it allows for both views' rows and for long full views;
    these values are set last, since a configuration made with them would alter parts it shares with others.
    """
    spec = vllm_config.speculative_config
    cache_config = vllm_config.cache_config
    if spec.kv_cache_dtype is not None:
        cache_config = replace(cache_config, cache_dtype=spec.kv_cache_dtype)
    config = replace(
        vllm_config,
        model_config=spec.draft_model_config,
        quant_config=None,
        cache_config=cache_config,
        parallel_config=replace(spec.draft_parallel_config, rank=vllm_config.parallel_config.rank),
    )
    config.scheduler_config = copy.copy(config.scheduler_config)
    config.scheduler_config.max_num_seqs = max_rows
    config.scheduler_config.max_num_batched_tokens = max(max_tokens, 2 * max_rows)
    config.model_config = copy.copy(config.model_config)
    config.model_config.max_model_len = max_positions
    return config
