"""A token-classification checkpoint in memory: what it takes, and the probability it gives every token."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from ...engine.files import read_config
from ...engine.load import load_tokenizer
from ...engine.model import load_module
from ...errors import WeightsError
from ...weights import resolve

__all__ = ["Checkpoint", "TokenModel", "checkpoint_folder", "content_of", "load_checkpoint"]

logger = logging.getLogger(__name__)

MAX_TOKENS = 512  # of one sequence with its opening and closing token: what the checkpoints were trained with
KEEP = 1  # the label of tokens that stay
OFFSET_POSITIONS = ("roberta", "camembert")  # kinds whose positions begin behind the padding token's id
READ_BYTES = 1 << 20


class TokenModel:
    """Gives each token of a sequence the probability that it stays; one call at a time."""

    def __init__(self, module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
        module.train(False)
        self._module = module
        self._device = next(module.parameters()).device
        self.num_parameters = sum(weights.numel() for weights in module.parameters())
        self._opening, self._closing = tokenizer.cls_token_id, tokenizer.sep_token_id
        self._padding = tokenizer.pad_token_id
        self._max_tokens = max_tokens

    @property
    def device(self) -> torch.device:
        return self._device

    @torch.inference_mode()
    def probabilities(self, sequences: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """For each sequence of ids, its tokens' probabilities; padded to the longest, in one forward.

        A full chunk stands without its closing token, as in the llmlingua package.
        """
        rows = [[self._opening, *ids.tolist(), self._closing][: self._max_tokens] for ids in sequences]
        width = max(map(len, rows))
        padded = [row + [self._padding] * (width - len(row)) for row in rows]
        ids = torch.tensor(padded, device=self._device)  # [batch, width]
        lengths = torch.tensor([len(row) for row in rows], device=self._device)
        mask = torch.arange(width, device=self._device) < lengths[:, None]  # [batch, width]
        logits = self._module(input_ids=ids, attention_mask=mask.long()).logits  # [batch, width, 2]
        keep = logits.float().softmax(dim=-1)[..., KEEP].cpu().numpy()
        return [keep[row, 1 : 1 + len(ids)].copy() for row, ids in enumerate(sequences)]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded checkpoint; `digest` names its content, `max_tokens` its longest sequence."""

    model: TokenModel
    tokenizer: PreTrainedTokenizerBase
    digest: str
    max_tokens: int


def checkpoint_folder(name: str | os.PathLike[str], *, offline: bool) -> Path:
    """The folder of a checkpoint by its hub name or path.

    Raises WeightsError for one that does not classify tokens into two labels.
    """
    folder = resolve(name, offline=offline).path
    config = read_config(folder, "a token classifier")
    kinds = config.architectures or []
    if not any("ForTokenClassification" in kind for kind in kinds) or config.num_labels != 2:
        raise WeightsError(
            f"{os.fspath(name)!r} is a {', '.join(kinds) or 'model of no known kind'} with "
            f"{config.num_labels} labels; a token classifier with two is needed, such as "
            "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"
        )
    return folder


def load_checkpoint(folder: Path, *, device: str | None, dtype: str) -> Checkpoint:
    """The checkpoint of a local folder: safetensors only, no code of its own; `device` None picks CUDA.

    Raises WeightsError where weights or tokenizer are missing or broken, ConfigurationError for an unknown
    device or dtype.
    """
    tokenizer = load_tokenizer(folder)
    for name in ("cls", "sep", "pad", "unk"):
        if getattr(tokenizer, f"{name}_token_id") is None:
            raise WeightsError(f"the tokenizer in {folder} has no {name}_token")
    module: Any = load_module(
        folder,
        AutoModelForTokenClassification,
        name=str(folder),
        dtype=dtype,
        device=device,
        kind="a token classifier",
    )
    max_tokens = _max_tokens(module.config)
    if max(tokenizer.get_vocab().values()) >= module.get_input_embeddings().num_embeddings:
        raise WeightsError(f"the tokenizer in {folder} has more tokens than the model")
    return Checkpoint(TokenModel(module, tokenizer, max_tokens), tokenizer, content_of(folder), max_tokens)


def content_of(folder: Path) -> str:
    """A hash of what a checkpoint's folder holds: equal for equal files, wherever they lie."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".txt", ".model"):
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(READ_BYTES):
                    digest.update(block)
            total.update(f"{path.name}:{digest.hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _max_tokens(config: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", 0) or MAX_TOKENS)
    if any(kind in config.model_type for kind in OFFSET_POSITIONS):
        positions -= int(config.pad_token_id) + 1
    return min(positions, MAX_TOKENS)
