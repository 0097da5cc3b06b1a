"""Randomly initialised model pairs of real sizes, built on the device that will run them: no download."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import PREFILL_CHUNK_CUDA

__all__ = ["GIB", "PAIRS", "TINY", "ModelShape", "PairShape", "SpeedPair", "random_module"]

GIB = 1024**3
BYTES_PER_WEIGHT = 2  # bfloat16
RESERVE_BYTES = 2 * GIB  # what the CUDA context, libraries and a fragmented allocator keep


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Qwen3 architecture as published; heads have 128 dimensions in all of them."""

    name: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int = 8
    tie_word_embeddings: bool = False
    head_dim: int = 128
    vocab_size: int = 151936

    def config(self) -> Qwen3Config:
        """The transformers configuration."""
        return Qwen3Config(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            tie_word_embeddings=self.tie_word_embeddings,
            max_position_embeddings=40960,
        )

    @property
    def num_parameters(self) -> int:
        """Weights, norms included."""
        query, key_value = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        attention = 2 * self.hidden_size * (query + key_value)
        norms = 2 * self.hidden_size + 2 * self.head_dim
        layer = attention + 3 * self.hidden_size * self.intermediate_size + norms
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return self.num_hidden_layers * layer + embeddings + self.hidden_size

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of one position."""
        per_layer = 2 * self.num_key_value_heads * self.head_dim
        return self.num_hidden_layers * per_layer * BYTES_PER_WEIGHT

    def activation_bytes(self, prompt_tokens: int) -> int:
        """A generous bound on a prefill chunk's activations, with keys and values repeated for every head."""
        rows = min(prompt_tokens, PREFILL_CHUNK_CUDA)
        wide = 3 * self.intermediate_size + 8 * self.hidden_size
        repeated = 2 * 2 * self.num_attention_heads * self.head_dim
        mask = 3 * rows * prompt_tokens  # a bool mask and its bfloat16 copy, beyond the first chunk only
        return (rows * wide + prompt_tokens * repeated) * BYTES_PER_WEIGHT + mask


@dataclass(frozen=True, slots=True)
class PairShape:
    """A verifier and its drafter."""

    verifier: ModelShape
    drafter: ModelShape

    @property
    def name(self) -> str:
        """Sizes of verifier and drafter."""
        return f"{self.verifier.name}/{self.drafter.name}"

    @property
    def weight_bytes(self) -> int:
        """Both models in bfloat16."""
        return BYTES_PER_WEIGHT * (self.verifier.num_parameters + self.drafter.num_parameters)

    def needed_bytes(self, full_tokens: int) -> int:
        """What the hungriest arm needs (symmetric SD: both models hold the full view), everything counted."""
        caches = full_tokens * (self.verifier.cache_bytes_per_token + self.drafter.cache_bytes_per_token)
        return self.weight_bytes + caches + self.verifier.activation_bytes(full_tokens) + RESERVE_BYTES


QWEN3_32B = ModelShape("32B", 5120, 25600, 64, 64)
QWEN3_14B = ModelShape("14B", 5120, 17408, 40, 40)
QWEN3_8B = ModelShape("8B", 4096, 12288, 36, 32)
QWEN3_4B = ModelShape("4B", 2560, 9728, 36, 32, tie_word_embeddings=True)
QWEN3_1_7B = ModelShape("1.7B", 2048, 6144, 28, 16, tie_word_embeddings=True)
QWEN3_0_6B = ModelShape("0.6B", 1024, 3072, 28, 16, tie_word_embeddings=True)

# Largest first; the first is the paper's.
PAIRS: dict[str, PairShape] = {
    pair.name: pair
    for pair in (
        PairShape(QWEN3_32B, QWEN3_4B),
        PairShape(QWEN3_14B, QWEN3_1_7B),
        PairShape(QWEN3_8B, QWEN3_0_6B),
        PairShape(QWEN3_1_7B, QWEN3_0_6B),
    )
}

TINY = PairShape(
    ModelShape("tiny", 256, 512, 4, 8, num_key_value_heads=2, head_dim=32, vocab_size=1024),
    ModelShape("tinier", 64, 128, 2, 2, num_key_value_heads=1, head_dim=32, vocab_size=1024),
)


def random_module(
    config: Qwen3Config, *, seed: int, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """A model with transformers' own random initialisation, allocated and filled on `device` in `dtype`."""
    torch.manual_seed(seed)
    with device:  # weights and rotary tables are created in place: nothing passes through host memory
        module: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=dtype, attn_implementation="sdpa"
        )
    return module.requires_grad_(False)


@dataclass(frozen=True, slots=True)
class SpeedPair:
    """Both models of a shape in memory."""

    shape: PairShape
    verifier: CausalModel
    drafter: CausalModel

    @classmethod
    def build(cls, shape: PairShape, device: torch.device) -> SpeedPair:
        """The pair in bfloat16; raises torch.OutOfMemoryError where it doesn't fit."""

        def model(part: ModelShape, seed: int) -> CausalModel:
            module = random_module(part.config(), seed=seed, dtype=torch.bfloat16, device=device)
            return CausalModel(module, part.name)

        return cls(shape, model(shape.verifier, 1), model(shape.drafter, 2))
