"""A vLLM configuration of a tiny pair and a KV cache for it, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import Qwen2Config
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheTensor

VOCAB = 64
BLOCK = 16
DRAFTER = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 64}
BLOCK_BYTES = 2 * 1 * 1 * 32 * 4 * BLOCK  # keys and values, layers, heads, head size, fp32
MAX_POSITIONS = 2048
"""Of the drafter."""


def save_config(folder: Path, **fields: Any) -> str:
    """A folder with the configuration of a small Qwen2, and no weights."""
    config = Qwen2Config(
        vocab_size=VOCAB,
        intermediate_size=64,
        tie_word_embeddings=False,
        eos_token_id=0,
        architectures=["Qwen2ForCausalLM"],
        **{**DRAFTER, "max_position_embeddings": MAX_POSITIONS, **fields},
    )
    config.save_pretrained(folder)
    return str(folder)


def vllm_config(
    folder: Path,
    *,
    asymspec: dict[str, Any] | None = None,
    num_drafts: int | None = 2,
    max_model_len: int = 256,
    **engine_args: Any,
) -> VllmConfig:
    """The configuration an engine with these arguments would have; `num_drafts` None: no speculation."""
    verifier = save_config(folder / "verifier", num_hidden_layers=2)
    speculative = None
    if num_drafts is not None:
        drafter = save_config(folder / "drafter")
        speculative = {"method": "draft_model", "model": drafter, "num_speculative_tokens": num_drafts}
    return EngineArgs(
        model=verifier,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=max_model_len,
        block_size=BLOCK,
        enforce_eager=True,
        speculative_config=speculative,
        additional_config={"asymspec": asymspec or {}},
        **{
            "async_scheduling": False,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 64,
            "kv_cache_memory_bytes": 1 << 20,
            **engine_args,
        },
    ).create_engine_config()


def kv_cache_config(num_blocks: int) -> KVCacheConfig:
    """A KV cache of the verifier."""
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=_float32())
    layers = [f"model.layers.{i}.self_attn.attn" for i in range(2)]
    page = spec.page_size_bytes
    tensor = KVCacheTensor(
        size=len(layers) * num_blocks * page, layers=layers, layer_stride=num_blocks * page, block_stride=page
    )
    return KVCacheConfig(
        num_blocks=num_blocks,
        kv_cache_tensors=[tensor],
        kv_cache_groups=[KVCacheGroupSpec(layers, spec)],
    )


def _float32() -> Any:
    import torch

    return torch.float32
