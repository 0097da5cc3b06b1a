"""One model's reading of one prompt and of the tokens committed after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .cache import KVCache
from .model import CausalModel
from .prefix import common_length

if TYPE_CHECKING:
    from .vision.sight import Sight

__all__ = ["PREFILL_CHUNK", "PREFILL_CHUNK_CUDA", "View"]

# Tokens per prefill forward: bounds activation memory and the time to notice an abort. A GPU reads a first
# chunk with its fastest attention kernel and needs more rows to be busy.
PREFILL_CHUNK = 512
PREFILL_CHUNK_CUDA = 8192


class View:
    """A prompt, its cache, and how far that cache reaches into prompt + committed tokens.

    Ids that go in and logits that come out are those in which the views of a request speak to each other; the
    model's own are the same, unless a subclass says how they differ (`own`, `native`, `shared`).

    Invariant between blocks: the cache holds a proper prefix of prompt + committed, so there is always at
    least one token left to read and its logits never have to be kept.
    """

    def __init__(
        self,
        model: CausalModel,
        prompt: Sequence[int],
        cache: KVCache | None = None,
        sight: Sight | None = None,
    ) -> None:
        self.model = model
        self.sight = sight  # the prompt's images
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

    def begin_like(self, other: View) -> None:
        """Takes over what another view of the same model has read of a common beginning, if it is more."""
        shared = min(common_length(self.prompt[:-1], other.prompt), other.cache.length)
        if shared > self.cache.length:
            self.cache = other.cache.copy_prefix(shared, self.cache.reserved)

    def advance(self, committed: Sequence[int], ahead: Sequence[int] | Tensor, num_places: int) -> Tensor:
        """Reads what is unread of prompt + committed + ahead; logits of the last `num_places` tokens.

        `ahead` are drafts: a list, or an id tensor [1, n] still on the device.
        """
        ahead = ahead if isinstance(ahead, Tensor) else self._tensor(list(ahead))
        return self._read(torch.cat([self.unread(committed), self.native(ahead)], dim=1), num_places)

    def unread(self, committed: Sequence[int]) -> Tensor:
        """The model's ids of prompt + committed that the cache does not hold yet, at least one: [1, n]."""
        start = self.cache.length
        return self._tensor(
            self.prompt[start:] + list(self.own(committed)[max(0, start - len(self.prompt)) :])
        )

    def rewind(self, committed: Sequence[int]) -> None:
        """Forgets refused drafts, and the last committed token where it was read already."""
        self.cache.rewind(self.num_tokens(committed) - 1)

    def tokens(self, committed: Sequence[int]) -> list[int]:
        """The tokens the cache holds."""
        return (self.prompt + list(self.own(committed)))[: self.cache.length]

    def num_tokens(self, committed: Sequence[int]) -> int:
        """The length of prompt + committed in the model's own tokens."""
        return len(self.prompt) + len(self.own(committed))

    def own(self, committed: Sequence[int]) -> Sequence[int]:
        """Committed tokens in the model's own ids."""
        return committed

    def native(self, drafts: Tensor) -> Tensor:
        """Drafts [1, n] in the model's own ids, one each."""
        return drafts

    def shared(self, logits: Tensor) -> Tensor:
        """The model's logits [1, n, own vocab] over the ids that all views share: [1, n, vocab]."""
        return logits

    def _read(self, ids: Tensor, num_logits: int) -> Tensor:
        self.num_forwarded += ids.shape[1]
        return self.shared(self.model.forward(ids, self.cache, num_logits, self.sight))

    @staticmethod
    def read_each(views: Sequence[View], ids: Sequence[Tensor]) -> list[Tensor]:
        """Reads a piece [1, n_i] of each view, in its model's ids; logits of each one's last token.

        Returns [1, 1, vocab] for each.
        Several views must be of one model that can pack, and are then read in one forward.
        """
        if len(views) == 1:
            return [views[0]._read(ids[0], 1)]
        for view, piece in zip(views, ids, strict=True):
            view.num_forwarded += piece.shape[1]
        caches, sights = [view.cache for view in views], [view.sight for view in views]
        rows = views[0].model.forward_packed(ids, caches, sights)
        return [view.shared(row) for view, row in zip(views, rows, strict=True)]

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], dtype=torch.long, device=self.model.device)
