"""Every name of vLLM's worker side that the plugin uses: the place to look when a release moves something.

Imported in worker processes only: it needs the model code that an API process has no use for.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from vllm.compilation.backends import set_model_tag
from vllm.config import CUDAGraphMode, VllmConfig, get_layers_from_vllm_config, replace
from vllm.forward_context import BatchDescriptor, set_forward_context
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.model_loader import get_model
from vllm.model_executor.model_loader.utils import get_draft_load_config
from vllm.model_executor.models.interfaces import supports_mrope
from vllm.multimodal.utils import group_and_batch_mm_kwargs
from vllm.platforms import current_platform
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import AsyncModelRunnerOutput, ModelRunnerOutput
from vllm.v1.worker.gpu.attn_utils import build_attn_metadata, init_attn_backend
from vllm.v1.worker.utils import (
    allocate_kv_cache,
    bind_kv_cache_to_layers,
    customize_attention_spec,
    map_kv_caches_to_kernel_blocks,
)

try:
    from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups
except ImportError:  # its place from 0.33 on
    from vllm.v1.core.kv_cache_planning import get_kv_cache_config_from_groups

__all__ = [
    "AsyncModelRunnerOutput",
    "AttentionLayerBase",
    "BatchDescriptor",
    "CUDAGraphMode",
    "FullAttentionSpec",
    "KVCacheConfig",
    "KVCacheGroupSpec",
    "ModelRunnerOutput",
    "VllmConfig",
    "allocate_kv_cache",
    "as_if_one_vocabulary",
    "bind_kv_cache_to_layers",
    "build_attn_metadata",
    "cached_tokenizer_from_config",
    "current_platform",
    "customize_attention_spec",
    "draft_model_proposer",
    "draft_model_speculator",
    "get_draft_load_config",
    "get_kv_cache_config_from_groups",
    "get_layers_from_vllm_config",
    "get_model",
    "group_and_batch_mm_kwargs",
    "init_attn_backend",
    "map_kv_caches_to_kernel_blocks",
    "model_runner_class",
    "replace",
    "set_forward_context",
    "set_model_tag",
    "supports_mrope",
    "worker_class",
]


@contextlib.contextmanager
def as_if_one_vocabulary(vllm_config: Any) -> Iterator[None]:
    """Within, the drafter's vocabulary looks like the verifier's.

    vLLM's first model runner makes a drafter of its own before it gets ours in its place, and that one would
    map two vocabularies in a way of its own, or refuse them.
    """
    speculative = vllm_config.speculative_config
    is_other, drafter = speculative.use_heterogeneous_vocab, speculative.draft_model_config
    if is_other:
        size = vllm_config.model_config.get_vocab_size()
        alike = copy.copy(drafter)
        alike.model_arch_config = dataclasses.replace(drafter.model_arch_config, vocab_size=size)
        speculative.use_heterogeneous_vocab, speculative.draft_model_config = False, alike
    try:
        yield
    finally:
        speculative.use_heterogeneous_vocab, speculative.draft_model_config = is_other, drafter


def worker_class() -> Any:
    """vLLM's worker for this platform."""
    if current_platform.is_cpu():
        from vllm.v1.worker.cpu_worker import CPUWorker

        return CPUWorker
    from vllm.v1.worker.gpu_worker import Worker

    return Worker


def model_runner_class(*, is_v2: bool) -> Any:
    """vLLM's model runner for this platform, of the second generation or the first."""
    if current_platform.is_cpu():
        if is_v2:
            from vllm.v1.worker.cpu.model_runner import CPUModelRunner as CPUModelRunnerV2

            return CPUModelRunnerV2
        from vllm.v1.worker.cpu_model_runner import CPUModelRunner

        return CPUModelRunner
    if is_v2:
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner as GPUModelRunnerV2

        return GPUModelRunnerV2
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    return GPUModelRunner


def draft_model_proposer() -> Any:
    """The class that the first-generation runner expects of its drafter."""
    from vllm.v1.spec_decode.draft_model import DraftModelProposer

    return DraftModelProposer


def draft_model_speculator() -> Any:
    """The class that the second-generation runner expects of its drafter."""
    from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator

    return DraftModelSpeculator
