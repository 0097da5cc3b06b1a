"""A drafter of another family as the block loop sees it: it speaks the verifier's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..decoding.transcript import Transcriber
from ..decoding.translation import Translation
from .cache import KVCache
from .model import CausalModel
from .view import View

__all__ = ["ForeignView"]


class ForeignView(View):
    """A view whose model has a vocabulary of its own: the prompt and the cache are in its ids.

    Invariant between blocks, as of any view: the cache holds a proper prefix of the prompt and the transcript
    of the committed tokens.
    """

    def __init__(
        self,
        model: CausalModel,
        prompt: Sequence[int],
        cache: KVCache | None,
        transcriber: Transcriber,
        translation: Translation,
    ) -> None:
        super().__init__(model, prompt, cache)
        self._transcriber = transcriber
        self._translation = translation
        self.transcript = transcriber.begin()

    def rewind(self, committed: Sequence[int]) -> None:
        """Forgets refused drafts, and what the last committed token made be spelled anew.

        All but the last token of a block are drafts that stand: they were read as their counterparts.
        """
        if len(committed) < self.transcript.num_pushed:  # of an interrupted block
            self.transcript = self._transcriber.begin()
            self.cache.rewind(len(self.prompt))
        self.transcript.push(committed[self.transcript.num_pushed :])
        written = self.transcript
        kept = min(written.num_kept, len(written.tokens) - 1) if written.tokens else -1
        self.cache.rewind(len(self.prompt) + kept)

    def own(self, committed: Sequence[int]) -> Sequence[int]:
        return self.transcript.tokens

    def native(self, drafts: Tensor) -> Tensor:
        return self._translation.ids(drafts)

    def shared(self, logits: Tensor) -> Tensor:
        return self._translation.logits(logits)
