"""Draft rounds: what the drafter reads and proposes at a step, and the rule's verdict on it a step later.

Every round feeds the last two committed tokens of each view, then one proposal a place, full and base rows in
the same forward. The last token but one is fed again because its key and value may be missing: the draft
that ended a fully accepted block was never read. So shapes don't depend on what was accepted, and nothing
waits for the device. Source of the method: AsymSpec (arXiv 2608.26004), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .judging import PendingCounts, Verdict, judge
from .pieces import Piece, positions_of
from .plan import Chunk, StepPlan
from .rows import Lengths, ReadsRows, Rows
from .seen import Shown
from .slots import TAIL, VIEWS, LastRound, Shape, Slots, on_device

__all__ = ["Round", "Rounds"]


class Rounds:
    """The drafter's side of all AsymSpec requests of a worker."""

    def __init__(
        self, drafter: ReadsRows, shape: Shape, logits_dtype: torch.dtype, device: torch.device
    ) -> None:
        self.drafter = drafter
        self.shape = shape
        self.device = device
        self.slots = Slots(shape, logits_dtype, device)
        self._pending: list[PendingCounts] = []

    def knows(self, req_id: str) -> bool:
        """Whether that request is an AsymSpec request with a slot."""
        return req_id in self.slots

    def has_round(self, req_id: str) -> bool:
        """Whether proposals wait for a verdict: not at the end of a prompt, also a resumed request's."""
        return req_id in self.slots.last_rounds

    def apply(self, plan: StepPlan) -> None:
        """Does a step's plan: requests forgotten and made, tables extended, chunks read."""
        self.slots.apply(plan)
        self._see(plan)
        self._prefill(sorted(plan.chunks, key=lambda chunk: len(chunk.ids)))

    def propose(
        self,
        req_ids: Sequence[str],
        last: Tensor,
        num_tokens: Tensor,
        num_tokens_bound: Lengths,
        *,
        places: int,
    ) -> None:
        """Drafts `places` tokens for each request, with both views' logits at each.

        last [R, T]: the last committed tokens, two at least and as many as are new since the last round
        (what would lie before the sequence is ignored). num_tokens [R], on the device: tokens of the
        verifier's sequence, answer included; num_tokens_bound [R], on the host: no less than it, and equal to
        it where the answer is still empty.
        """
        if not req_ids:
            return
        one = Round(self, req_ids, num_tokens, num_tokens_bound)
        self.draft(req_ids, one, one.read_last_two(last[:, -TAIL:]), places)

    def draft(self, req_ids: Sequence[str], one: Round, hidden: Tensor, places: int) -> None:
        """Drafts in a round whose rows are read up to their last token; hidden [rows, h] behind that."""
        for place in range(places):
            drafts = one.keep(place, self.shared(self.drafter.logits(hidden)))
            if place + 1 < places:
                hidden = one.read_draft(place, self.native(drafts))
        for req_id in req_ids:
            max_read = places if self.has_round(req_id) else 0
            self.slots.last_rounds[req_id] = LastRound(places, max_read)

    def shared(self, logits: Tensor) -> Tensor:
        """The drafter's logits over the verifier's ids."""
        return logits

    def native(self, drafts: Tensor) -> Tensor:
        """Drafts, which are ids of the verifier's, in the drafter's."""
        return drafts

    def num_places(self, req_ids: Sequence[str]) -> int:
        """Places a round of these requests needs."""
        return max((self.slots.request(req_id).num_places for req_id in req_ids), default=0)

    def drafts(self, req_ids: Sequence[str]) -> Tensor:
        """The last round's first K proposals [R, K]."""
        return self.slots.drafts[self.slots.rows(req_ids), : self.shape.num_places - 1]

    def verify(self, req_ids: Sequence[str], verifier: Tensor, num_scheduled: Lengths) -> Verdict:
        """The rule's verdict on the last round, as far as the verifier read it.

        verifier [R, T, vocab]: its logits behind the last committed token and each scheduled draft, anything
        beyond a request's own; num_scheduled [R]: drafts it read, or placeholders for them.
        """
        verdict, counts = judge(self.slots, req_ids, verifier, num_scheduled)
        self._pending.append(counts)
        return verdict

    def take_counts(self) -> PendingCounts | None:
        """What was counted since the last call; None without a verification. A step may have several."""
        pending, self._pending = self._pending, []
        return PendingCounts.joined(pending) if pending else None

    def _see(self, plan: StepPlan) -> None:
        """Finds the positions of new full views that have images."""
        with_images = [new for new in plan.new if new.images]
        if with_images and self.drafter.sight is None:
            raise RuntimeError(f"{with_images[0].req_id} has images, and the drafter sees none")
        sight: Any = self.drafter.sight
        self.slots.see({new.req_id: sight.view(new.full_ids, new.images) for new in with_images})

    def _prefill(self, chunks: Sequence[Chunk]) -> None:
        """Reads chunks, as many tokens a forward as the drafter takes."""
        batch: list[Piece] = []
        room = self.drafter.max_tokens
        for chunk in chunks:
            row = self.slots.table_row(chunk.req_id, chunk.view)
            seen = self.slots.seen(chunk.req_id, chunk.view)
            ids, start = np.frombuffer(chunk.ids, dtype="<i4").astype(np.int64), chunk.start
            while len(ids):
                piece, ids = Piece(row, start, ids[:room], seen), ids[room:]
                batch.append(piece)
                start = piece.stop
                room -= len(piece.ids)
                if room == 0:
                    self._read_pieces(batch)
                    batch, room = [], self.drafter.max_tokens
        if batch:
            self._read_pieces(batch)

    def _read_pieces(self, pieces: Sequence[Piece]) -> None:
        query_lens = np.array([len(piece.ids) for piece in pieces])
        lengths = np.array([piece.stop for piece in pieces])
        places = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        starts = np.cumsum(query_lens) - query_lens
        shown: list[Shown] = []
        for piece, at in zip(pieces, starts, strict=True):
            if piece.seen is not None:
                shown += piece.seen.shown(piece.start, piece.stop, int(at))
        self.drafter.read(
            self.rows(
                on_device(np.concatenate([piece.ids for piece in pieces]), torch.int64, self.device),
                on_device(places, torch.int64, self.device),
                on_device([piece.row for piece in pieces], torch.int64, self.device),
                on_device(lengths, torch.int64, self.device),
                query_lens,
                lengths,
                positions=on_device(positions_of(pieces), torch.int64, self.device),
                shown=shown,
            )
        )
        for piece in pieces:
            if piece.seen is not None:
                piece.seen.forget(piece.stop)

    def rows(
        self,
        tokens: Tensor,
        in_view: Tensor,
        table_rows: Tensor,
        lengths: Tensor,
        query_lens: Lengths,
        bounds: Lengths,
        *,
        positions: Tensor,
        shown: Sequence[Shown] = (),
    ) -> Rows:
        """Rows with their tables and places. `in_view`: the tokens' places in their views, [N].

        Places beyond the drafter's positions are never judged: any will do.
        """
        block_size, longest = self.shape.block_size, self.shape.max_positions
        bounds = np.minimum(bounds, longest)
        width = min(-(-int(bounds.max()) // block_size), self.shape.table_width)
        tables = self.slots.tables[table_rows]  # [R, table_width]
        row_of = on_device(np.repeat(np.arange(len(query_lens)), query_lens), torch.int64, self.device)
        column = (in_view // block_size).clamp(max=self.shape.table_width - 1)
        places = tables[row_of, column].long() * block_size + in_view % block_size
        return Rows(
            tokens,
            positions.clamp(max=longest - 1),
            places,
            tables[:, :width].contiguous(),
            torch.minimum(lengths, on_device(bounds, torch.int64, self.device)).int(),
            query_lens,
            bounds,
            shown,
        )


class Round:
    """One round in the making. Rows: all full views, then the base views of the requests that have one."""

    def __init__(
        self, rounds: Rounds, req_ids: Sequence[str], num_tokens: Tensor, num_tokens_bound: Lengths
    ) -> None:
        slots, device = rounds.slots, rounds.device
        requests = [slots.request(req_id) for req_id in req_ids]
        views = [(i, "full") for i in range(len(requests))]
        views += [(i, "base") for i, request in enumerate(requests) if request.has_base]
        shared = [i for i, request in enumerate(requests) if not request.has_base and request.kind.needs_base]
        self.views = [(req_ids[i], view) for i, view in views]
        self._rounds = rounds
        self._slots = slots
        self._slot = slots.rows(req_ids)  # [R]
        self._of = on_device([i for i, _ in views], torch.int64, device)  # [rows], the request of each row
        self._is_base = on_device([VIEWS.index(view) for _, view in views], torch.int64, device)  # [rows]
        self._table_rows = 2 * self._slot[self._of] + self._is_base
        self._num_requests = len(requests)
        self._base_slots = self._slot[self._of[len(requests) :]]
        self._shared = on_device(shared, torch.int64, device) if shared else None
        self._num_tokens = num_tokens
        slot_of = self._slot[self._of]  # [rows]
        self._lengths = num_tokens[self._of] + slots.deltas[slot_of, self._is_base]  # [rows]
        self._shifts = torch.where(self._is_base == 0, slots.shifts[slot_of], 0)  # [rows]
        self._bounds = np.array(
            [requests[i].length(int(num_tokens_bound[i]), view) for i, view in views], dtype=np.int64
        )

    def read_last_two(self, last_two: Tensor) -> Tensor:
        """Reads each view's last two tokens (its only one, if so); hidden states behind the last [rows, h].

        Where the answer has fewer than two tokens, they come from the view's own prompt.
        """
        slots = self._slots
        behind = torch.arange(-TAIL, 0, device=self._lengths.device)  # [2]
        from_prompt_end = self._num_tokens[:, None] + behind - slots.prompt_lens[self._slot][:, None]
        from_prompt_end = from_prompt_end[self._of]  # [rows, 2]
        tails = slots.tails[self._slot[self._of], self._is_base]
        own = tails.gather(1, (from_prompt_end + TAIL).clamp(0, TAIL - 1))
        tokens = torch.where(from_prompt_end < 0, own, last_two[self._of])
        places = self._lengths[:, None] + behind
        positions = places + self._shifts[:, None]
        query_lens = np.minimum(self._bounds, TAIL)
        if (query_lens == TAIL).all():
            flat = tokens.flatten(), places.flatten(), positions.flatten()
            last = torch.arange(TAIL - 1, tokens.numel(), TAIL, device=tokens.device)
        else:
            is_read = (TAIL - np.arange(TAIL))[None, :] <= query_lens[:, None]
            read = on_device(np.flatnonzero(is_read), torch.int64, tokens.device)
            flat = tokens.flatten()[read], places.flatten()[read], positions.flatten()[read]
            last = on_device(np.cumsum(query_lens) - 1, torch.int64, tokens.device)
        rows = self._rounds.rows(
            *flat[:2], self._table_rows, self._lengths, query_lens, self._bounds, positions=flat[2]
        )
        return self._rounds.drafter.read(rows)[last]

    def read_draft(self, place: int, drafts: Tensor) -> Tensor:
        """Reads every view's proposal [R] at `place`; hidden states behind it [rows, h]."""
        return self.read_one(place, drafts[self._of])

    def read_one(self, place: int, tokens: Tensor) -> Tensor:
        """Reads a token [rows] of each view, at `place` behind its last one or, with -1, that one itself."""
        new = place + 1
        rows = self._rounds.rows(
            tokens,
            self._lengths + place,
            self._table_rows,
            self._lengths + new,
            np.ones(len(self._bounds), dtype=np.int64),
            self._bounds + new,
            positions=self._lengths + place + self._shifts,
        )
        return self._rounds.drafter.read(rows)

    def keep(self, place: int, logits: Tensor) -> Tensor:
        """Stores the logits [rows, vocab] at `place`; the proposals [R] there."""
        slots, num_requests = self._slots, self._num_requests
        full = logits[:num_requests]
        slots.full_logits[self._slot, place] = full
        slots.base_logits[self._base_slots, place] = logits[num_requests:]
        if self._shared is not None:
            slots.base_logits[self._slot[self._shared], place] = full[self._shared]
        # As fp32, for a CPU takes four times as long for bfloat16's argmax.
        drafts = full[:, : self._rounds.shape.vocab_size].float().argmax(dim=-1)
        slots.drafts[self._slot, place] = drafts
        return drafts
