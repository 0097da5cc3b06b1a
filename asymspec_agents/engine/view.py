"""One model's reading of one prompt and of the tokens committed after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .cache import KVCache
from .model import CausalModel

__all__ = ["PREFILL_CHUNK", "PREFILL_CHUNK_CUDA", "View"]

# Tokens per prefill forward: bounds activation memory and the time to notice an abort. A GPU reads a first
# chunk with its fastest attention kernel and needs more rows to be busy.
PREFILL_CHUNK = 512
PREFILL_CHUNK_CUDA = 8192


class View:
    """A prompt, its cache, and how far that cache reaches into prompt + committed tokens.

    Invariant between blocks: the cache holds a proper prefix of prompt + committed, so there is always at
    least one token left to read and its logits never have to be kept.
    """

    def __init__(self, model: CausalModel, prompt: Sequence[int], cache: KVCache | None = None) -> None:
        self.model = model
        self.prompt = list(prompt)
        self.cache = KVCache() if cache is None else cache  # an empty cache is falsy
        self.num_forwarded = 0  # tokens run through the model for this view

    def prefill(self, check: Callable[[], None]) -> None:
        """Reads the prompt up to its last token but one; `check` runs before each chunk and may raise."""
        end = len(self.prompt) - 1
        chunk = PREFILL_CHUNK_CUDA if self.model.device.type == "cuda" else PREFILL_CHUNK
        while self.cache.length < end:
            check()
            start = self.cache.length
            self._read(self._tensor(self.prompt[start : min(start + chunk, end)]), 1)

    def advance(self, committed: Sequence[int], ahead: Sequence[int] | Tensor, num_places: int) -> Tensor:
        """Reads what is unread of prompt + committed + ahead; logits of the last `num_places` tokens.

        `ahead` are drafts: a list, or an id tensor [1, n] still on the device.
        """
        start = self.cache.length
        unread = self.prompt[start:] + list(committed[max(0, start - len(self.prompt)) :])
        ids = self._tensor(unread)
        ahead = ahead if isinstance(ahead, Tensor) else self._tensor(list(ahead))
        return self._read(torch.cat([ids, ahead], dim=1), num_places)

    def extend(self, ids: Tensor) -> Tensor:
        """Reads one more draft [1, 1] behind everything read so far: logits [1, 1, vocab]."""
        return self._read(ids, 1)

    def rewind(self, num_committed: int) -> None:
        """Forgets refused drafts, and the last committed token where it was read already."""
        self.cache.rewind(len(self.prompt) + num_committed - 1)

    def tokens(self, committed: Sequence[int]) -> list[int]:
        """The tokens the cache holds."""
        return (self.prompt + list(committed))[: self.cache.length]

    def _read(self, ids: Tensor, num_logits: int) -> Tensor:
        self.num_forwarded += ids.shape[1]
        return self.model.forward(ids, self.cache, num_logits)

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], dtype=torch.long, device=self.model.device)
