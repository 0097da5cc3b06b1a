"""Small random pairs of two families, saved in folders: each model has a tokenizer of its own.

The drafter is the verifier with noise in every weight; tokens that both have share their rows. They are
Llamas: for Qwen2 transformers takes a tokenizer of its own, whatever is saved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from asymspec_agents.decoding.spelling import Vocabulary
from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.decoding.vocab_file import save_map
from tests.decoding.made_tokenizers import made
from tests.engine.tiny_folder import save_model
from vllm_asymspec.family import AUTO, Family

from .models import DISAGREEMENT, HEAD_SCALE, SHAPE, WEIGHT_SCALE

__all__ = ["Pair"]

SKIPPED = 3  # a thin map lacks every third of the ordinary pairs


class Pair:
    """A verifier with one tokenizer and a drafter with another, saved in `folder`.

    `sizes` are their rows of logits, padding included. `is_thin`: much of what both have is not mapped.
    """

    def __init__(
        self, folder: Path, families: tuple[str, str], sizes: tuple[int, int], *, is_thin: bool = False
    ) -> None:
        tokenizers = made(families[0]), made(families[1])
        verifier, drafter = (Vocabulary.of(t, name=n) for t, n in zip(tokenizers, families, strict=True))
        self.choice = AUTO
        if is_thin:
            self.choice = str(folder / "map.json")
            save_map(_thin(VocabMap.build(verifier, drafter), verifier), self.choice)
        self.family = Family.of(
            self.choice,
            verifier,
            drafter,
            tokenizers[1],
            num_logits=sizes,
            drafter_end_ids=[tokenizers[1].eos_token_id],
        )
        self.verifier, self.drafter = self._modules(sizes)
        self.folders = (
            save_model(folder / "verifier", self.verifier, tokenizers[0]),
            save_model(folder / "drafter", self.drafter, tokenizers[1]),
        )

    def _modules(self, sizes: tuple[int, int]) -> tuple[PreTrainedModel, PreTrainedModel]:
        modules = []
        for seed, (size, num_ids) in enumerate(
            zip(sizes, (self.family.num_ids, self.family.vocab_size), strict=True)
        ):
            torch.manual_seed(seed)
            shape: dict[str, Any] = {**SHAPE, "vocab_size": size}
            module = LlamaForCausalLM(LlamaConfig(**shape))
            with torch.no_grad():
                for weight in module.parameters():
                    if weight.ndim > 1:
                        weight.mul_(WEIGHT_SCALE)
                head = module.get_output_embeddings().weight
                head.mul_(HEAD_SCALE / WEIGHT_SCALE)
                head[num_ids:] = 0  # plain vLLM may emit padding
            modules.append(module)
        verifier, drafter = modules
        vocab_map = self.family.vocab_map
        theirs, own = torch.tensor(vocab_map.verifier_ids), torch.tensor(vocab_map.drafter_ids)
        twins = dict(verifier.named_parameters())
        with torch.no_grad():
            for name, mine in drafter.named_parameters():
                if "embed_tokens" in name or "lm_head" in name:
                    mine[own] = mine[own] * DISAGREEMENT + twins[name][theirs] * (1 - DISAGREEMENT)
                else:
                    mine.mul_(DISAGREEMENT).add_(twins[name], alpha=1 - DISAGREEMENT)
        return verifier.float().eval(), drafter.float().eval()


def _thin(vocab_map: VocabMap, verifier: Vocabulary) -> VocabMap:
    pairs = [
        (mine, own)
        for index, (mine, own) in enumerate(vocab_map.to_drafter.items())
        if index % SKIPPED or mine in verifier.special
    ]
    return replace(
        vocab_map,
        verifier_ids=tuple(mine for mine, _ in pairs),
        drafter_ids=tuple(own for _, own in pairs),
    )
