"""Small random pairs of two families, saved in folders: each model has a tokenizer of its own.

The drafter is the verifier with noise in every weight; tokens that both have share their rows.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from asymspec_agents.decoding.spelling import Vocabulary
from tests.decoding.made_tokenizers import made
from tests.engine.tiny_folder import save_model
from vllm_asymspec.family import AUTO, Family

from .models import DISAGREEMENT, HEAD_SCALE, SHAPE, WEIGHT_SCALE

__all__ = ["Pair", "pair"]


class Pair:
    """A verifier with one tokenizer and a drafter with another; `sizes` are their rows, padding included."""

    def __init__(self, families: tuple[str, str], sizes: tuple[int, int]) -> None:
        self.tokenizers = made(families[0]), made(families[1])
        self.vocabularies = tuple(
            Vocabulary.of(t, name=n) for t, n in zip(self.tokenizers, families, strict=True)
        )
        self.family = Family.of(
            AUTO,
            self.vocabularies[0],
            self.vocabularies[1],
            self.tokenizers[1],
            num_logits=sizes,
            drafter_end_ids=[self.tokenizers[1].eos_token_id],
        )
        torch.manual_seed(0)
        shape: dict[str, Any] = {**SHAPE, "vocab_size": sizes[0]}
        self.verifier: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**shape))
        torch.manual_seed(1)
        self.drafter: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**{**shape, "vocab_size": sizes[1]}))
        with torch.no_grad():
            for module in (self.verifier, self.drafter):
                for weight in module.parameters():
                    if weight.ndim > 1:
                        weight.mul_(WEIGHT_SCALE)
                module.get_output_embeddings().weight.mul_(HEAD_SCALE / WEIGHT_SCALE)
            self._pair_rows()
        self.verifier.float().eval()
        self.drafter.float().eval()

    def _pair_rows(self) -> None:
        theirs, own = (
            torch.tensor(ids)
            for ids in (self.family.vocab_map.verifier_ids, self.family.vocab_map.drafter_ids)
        )
        twins = dict(self.verifier.named_parameters())
        for name, mine in self.drafter.named_parameters():
            twin = twins[name]
            if mine.shape == twin.shape and "embed" not in name and "lm_head" not in name:
                mine.mul_(DISAGREEMENT).add_(twin, alpha=1 - DISAGREEMENT)
            else:
                mine[own] = mine[own] * DISAGREEMENT + twin[theirs] * (1 - DISAGREEMENT)

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Folders of verifier and drafter."""
        return (
            save_model(folder / "verifier", self.verifier, self.tokenizers[0]),
            save_model(folder / "drafter", self.drafter, self.tokenizers[1]),
        )


@functools.cache
def pair(families: tuple[str, str], sizes: tuple[int, int]) -> Pair:
    """One object a pair."""
    return Pair(families, sizes)
