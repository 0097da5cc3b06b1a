"""A small random pair in folders, with heads vLLM's CPU kernels take and drafts that are sometimes right."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from asymspec_agents.engine.model import CausalModel
from tests.engine.tiny_folder import byte_tokenizer, save_model

__all__ = ["MAX_POSITIONS", "NUM_IDS", "VOCAB", "causal_pair", "save_pair"]

VOCAB = 272  # padded: the tokenizer has NUM_IDS
NUM_IDS = 259  # with the end-of-text that transformers adds to every tokenizer of this kind
MAX_POSITIONS = 2048
DISAGREEMENT = 0.1  # with these scales about half the drafts stand, and texts don't run in circles
WEIGHT_SCALE, HEAD_SCALE = 6.0, 10.0
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 128,  # four heads of 32, two of keys and values: enough for two ranks
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITIONS,
    "tie_word_embeddings": False,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": None,
}


def _module(architecture: str, seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    if architecture == "qwen2":
        module: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**SHAPE))
    else:
        module = LlamaForCausalLM(LlamaConfig(**SHAPE))
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1:
                weight.mul_(WEIGHT_SCALE)
        module.get_output_embeddings().weight.mul_(HEAD_SCALE / WEIGHT_SCALE)
    return module.float().eval()


def modules(architecture: str) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Verifier and drafter; the drafter is the verifier with noise in every weight."""
    verifier, drafter = _module(architecture, 0), _module(architecture, 1)
    with torch.no_grad():
        for mine, theirs in zip(drafter.parameters(), verifier.parameters(), strict=True):
            mine.mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
    return verifier, drafter


def causal_pair(architecture: str) -> tuple[CausalModel, CausalModel]:
    """The pair as the reference engine reads it."""
    verifier, drafter = modules(architecture)
    return CausalModel(verifier, "verifier"), CausalModel(drafter, "drafter")


def save_pair(folder: Path, architecture: str = "qwen2") -> tuple[Path, Path]:
    """Folders of verifier and drafter."""
    verifier, drafter = modules(architecture)
    tokenizer = byte_tokenizer()
    return (
        save_model(folder / "verifier", verifier, tokenizer),
        save_model(folder / "drafter", drafter, tokenizer),
    )
