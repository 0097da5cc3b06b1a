"""Small random models whose drafts are sometimes right: fast enough for the whole matrix of settings."""

from __future__ import annotations

import functools

import torch
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from asymspec_agents.engine.engine import Engine, EngineOptions
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.recording import NULL_RECORDER, Recorder

VOCAB = 61
ARCHITECTURES = ("qwen2", "mistral")
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
LOGIT_SCALE = 3.0  # random initial logits are nearly uniform; scaled, the models have opinions, but not one
DISAGREEMENT = 0.04  # how far the drafter's weights are from the verifier's: about half the drafts stand


def _module(architecture: str, seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    if architecture == "qwen2":
        module: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**SHAPE))
    else:  # a sliding window shorter than the prompts
        module = MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=16))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(4.0)
        module.get_output_embeddings().weight.mul_(LOGIT_SCALE / 4.0)
    return module.float().eval()


@functools.cache
def pair(architecture: str) -> tuple[CausalModel, CausalModel]:
    """Verifier and drafter; the drafter is the verifier with noise in every weight."""
    verifier, drafter = _module(architecture, 0), _module(architecture, 1)
    with torch.no_grad():
        for mine, theirs in zip(drafter.parameters(), verifier.parameters(), strict=True):
            mine.mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
    return CausalModel(verifier, f"{architecture}-verifier"), CausalModel(drafter, f"{architecture}-drafter")


class Letters:
    """A tokenizer whose token i is the letter chr(0x4E00 + i)."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(chr(0x4E00 + i) for i in token_ids)


def tiny_engine(
    architecture: str = "qwen2", *, recorder: Recorder = NULL_RECORDER, options: EngineOptions | None = None
) -> Engine:
    """An engine over the pair."""
    verifier, drafter = pair(architecture)
    return Engine(verifier, drafter, Letters(), VOCAB, options=options, recorder=recorder)


def prompt(seed: int, length: int) -> list[int]:
    """Random token ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCAB, (length,), generator=generator).tolist()


def views(seed: int) -> tuple[list[int], list[int]]:
    """A full view and a compressed one: head, something of the middle, and the end in common."""
    full = prompt(seed, 44 + seed % 5)
    return full, full[:3] + full[20:30] + full[-3:]
