"""Draft rounds of a drafter of another family: it reads and writes tokens of its own.

What a step emitted is known on the host before the next round, and written on in the drafter's tokens. A
round then reads what of that is unread. Most often this is the last token: drafts that stood were read as
what they are. A token without a counterpart may change how the few before it are spelled; these are read
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asymspec_agents.decoding.transcript import Transcript
from asymspec_agents.decoding.translation import Translation

from .family import Family
from .plan import Chunk, NewRequest, StepPlan, ViewName
from .rounds import Round, Rounds
from .rows import Lengths, ReadsRows
from .slots import TAIL, Shape, on_device
from .wire_args import pack_ids, unpack_ids

__all__ = ["ForeignRounds"]

BOTH: tuple[ViewName, ...] = ("full", "base")


@dataclass(slots=True)
class _Text:
    """An answer in the drafter's tokens, behind both prompts.

    `num_verifier`: tokens of the verifier's sequence that are written here, `num_prompt` of them its
    prompt's. `prompt_lens` and `tails`: lengths and last two ids of the prompts of the drafter's views.
    `unread`: the first token of the answer that is to be read, or read again; negative where
    that is one of the prompt's.
    """

    transcript: Transcript
    num_verifier: int
    num_prompt: int
    prompt_lens: dict[str, int]
    tails: dict[str, tuple[int, ...]]
    unread: int

    @property
    def tokens(self) -> list[int]:
        return self.transcript.tokens

    @property
    def num_own(self) -> int:
        """What counts for the length of the verifier's sequence in its views: the answer is in own tokens."""
        return self.num_prompt + len(self.tokens)

    def write(self, emitted: Sequence[int], num_read: int) -> None:
        """Goes on with what a step emitted; the first `num_read` were read as drafts if they stood.

        All but the last of them did. Each was read as its counterpart, and is that unless spelled anew.
        """
        written = self.transcript
        unread = len(written.tokens) + min(max(len(emitted) - 1, 0), num_read)
        for token in emitted:
            before = len(written.tokens)
            written.push((token,))
            if written.num_kept < before:
                unread = min(unread, written.num_kept)
        self.num_verifier += len(emitted)
        self.unread = min(unread, len(written.tokens) - 1)

    def behind(self, view: str, start: int) -> Sequence[int]:
        """The view's tokens from `start` on, counted as `unread` is."""
        own = self.tails[view][max(start, -TAIL) :] if start < 0 else ()
        return [*own, *self.tokens[max(start, 0) :]]


class ForeignRounds(Rounds):
    """The rounds of a drafter with a vocabulary of its own; what goes in and out is the verifier's."""

    def __init__(
        self,
        drafter: ReadsRows,
        shape: Shape,
        logits_dtype: torch.dtype,
        device: torch.device,
        family: Family,
    ) -> None:
        super().__init__(drafter, shape, logits_dtype, device)
        self._family = family
        self._translation = Translation(family.vocab_map, family.num_ids, family.vocab_size, device)
        self._texts: dict[str, _Text] = {}

    def apply(self, plan: StepPlan) -> None:
        for req_id in plan.gone:
            self._texts.pop(req_id, None)
        for new in plan.new:
            self._texts[new.req_id] = self._text(new)
        super().apply(plan)

    def shared(self, logits: Tensor) -> Tensor:
        return self._translation.logits(logits)

    def native(self, drafts: Tensor) -> Tensor:
        return self._translation.ids(drafts)

    def propose(
        self,
        req_ids: Sequence[str],
        last: Tensor,
        num_tokens: Tensor,
        num_tokens_bound: Lengths,
        *,
        places: int,
    ) -> None:
        """As of any rounds; waits for the device."""
        if not req_ids:
            return
        for req_id, known, length in zip(req_ids, last.tolist(), num_tokens.tolist(), strict=True):
            text = self._texts[req_id]
            num_new = length - text.num_verifier
            if num_new:
                num_read = self.slots.last_rounds[req_id].num_places - 1
                text.write(known[len(known) - num_new :], num_read)
        self._read_up_to_last(req_ids)
        lengths = np.array([self._texts[req_id].num_own for req_id in req_ids], dtype=np.int64)
        one = Round(self, req_ids, on_device(lengths, torch.int64, self.device), lengths)
        tokens = [self._texts[req_id].behind(view, -1)[-1] for req_id, view in one.views]
        self.draft(req_ids, one, one.read_one(-1, on_device(tokens, torch.int64, self.device)), places)

    def _read_up_to_last(self, req_ids: Sequence[str]) -> None:
        """Reads what is unread of each view but for its last token."""
        chunks = []
        for req_id in req_ids:
            text, request = self._texts[req_id], self.slots.request(req_id)
            for view in BOTH if request.has_base else BOTH[:1]:
                first = max(text.unread, -text.prompt_lens[view])
                ids = text.behind(view, first)[:-1]
                if ids:
                    chunks.append(Chunk(req_id, view, text.prompt_lens[view] + first, pack_ids(ids)))
            text.unread = len(text.tokens) - 1
        self._prefill(chunks)

    def _text(self, new: NewRequest) -> _Text:
        if new.answer is None:
            raise RuntimeError(f"{new.req_id} comes without the tokens of a drafter of another family")
        transcript = self._family.begin()
        transcript.push(unpack_ids(new.answer))
        return _Text(
            transcript,
            new.prompt_len + transcript.num_pushed,
            new.prompt_len,
            {"full": new.prompt_len + new.full.delta, "base": new.prompt_len + new.base.delta},
            {"full": new.full.tail, "base": new.base.tail},
            len(transcript.tokens) - TAIL,
        )
