"""Where the drafter stands with both views of every AsymSpec request: blocks, tokens read, the plan of a
step.

The scheduler decides who is read when and who loses blocks; this module carries it out and keeps the books. A
request is `cold` (no slot, no blocks), or it has a slot and the blocks for both views with room for the next
steps. It is read when everything up to its last-but-two token is: draft rounds read the last two tokens
themselves. Lengths are in tokens of the verifier's sequence, answer included; a view's differ by its delta.
A drafter of another family reads the answer as its transcript, which is kept here as well as in the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES
from asymspec_agents.protocol import AsymSpecOptions

from .budget import Limits
from .entries import NUM_REFED, Entry, Images, View
from .family import Family
from .images import spans_of
from .plan import NewRequest, StepPlan, ViewPrompt
from .plan_draft import PlanDraft
from .pool import BlockPool
from .reading import reading_of
from .tally import Tally
from .wire_args import BYTES_PER_ID, AsymSpecArgs, pack_ids, unpack_ids

__all__ = ["Views"]


class Views:
    """The views of all AsymSpec requests over one pool. `num_slots`: requests the worker has room for.

    `unread(images, num_tokens)`: a view's images less the data of those that lie in its first tokens, which
    are read already. `family` is there for a drafter of another one.
    """

    def __init__(
        self,
        limits: Limits,
        num_slots: int,
        unread: Callable[[Images, int], Images] = lambda images, num_tokens: images,
        family: Family | None = None,
    ) -> None:
        self.limits = limits
        self._family = family
        self.num_slots = num_slots
        self._unread = unread
        self.pool = BlockPool(limits.pool.num_blocks)
        self._entries: dict[str, Entry] = {}
        self._holders: dict[str, None] = {}
        self._draft = PlanDraft()

    def __contains__(self, req_id: object) -> bool:
        return req_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def tally(self, req_id: str) -> Tally:
        """The request's counts."""
        return self._entries[req_id].tally

    def num_drafts(self, req_id: str) -> int:
        """How many drafts the verifier reads for the request at a step."""
        return min(self._entries[req_id].reading.options.num_draft_tokens, self.limits.num_draft_tokens)

    def holders(self) -> tuple[str, ...]:
        """The requests that have a slot and blocks."""
        return tuple(self._holders)

    def has_slot(self, req_id: str) -> bool:
        """Whether that request has a slot and blocks."""
        return req_id in self._holders

    def add(
        self,
        req_id: str,
        args: AsymSpecArgs,
        compressed_ids: bytes,
        salt: str | None,
        images: Images = (),
    ) -> None:
        """A request comes, cold. `salt` isolates its cached blocks; `images` are those of its full view."""
        reading = reading_of(args, compressed_ids)
        views = [View("full", args.full_ids, spans_of(images))]
        if reading.has_base:
            views.append(View("base", args.base_ids or compressed_ids))
        num_drafts = min(reading.options.num_draft_tokens, self.limits.num_draft_tokens)
        tally = Tally(
            mode=reading.mode,
            fallback=reading.fallback,
            num_compressed=len(compressed_ids) // BYTES_PER_ID,
            num_full=args.num_full_tokens,
            num_places=num_drafts + (reading.options.bonus == "rule"),
            num_images=args.num_images,
        )
        entry = Entry(req_id, reading, salt, tuple(views), tally, images)
        self._entries[req_id] = entry
        self._transcribe(entry, ())

    def remove(self, req_id: str) -> None:
        """The request is over."""
        self.release(req_id)
        del self._entries[req_id]

    def release(self, req_id: str) -> None:
        """The request loses slot and blocks, if it has them, and is cold again."""
        if req_id in self._holders:
            del self._holders[req_id]
            self._draft.forget(req_id)
            self._give_back(self._entries[req_id])

    def begin(self, req_id: str, answer: Sequence[int]) -> bool:
        """Gives a cold request its slot and blocks; False when none are free. `answer`: its tokens so far."""
        entry = self._entries[req_id]
        if len(self._holders) >= self.num_slots:
            return False
        self._transcribe(entry, answer)
        own = answer if entry.transcript is None else entry.transcript.tokens
        num_unsettled = 0 if entry.transcript is None else min(len(own), MAX_TAIL_BYTES)
        block_size, packed = self.limits.pool.block_size, pack_ids(own)
        for view in entry.views:
            view.begin(packed, num_unsettled, block_size, entry.salt)
            view.blocks = self.pool.find(view.names)
            self.pool.share(view.blocks)
            view.num_read = view.num_shared = len(view.blocks) * block_size
        if not self._extend(entry, entry.num_prompt + len(answer)):
            self._give_back(entry)
            return False
        self._holders[req_id] = None
        entry.num_begun += 1
        self._note_cached(entry)
        self._draft.add(self._new_request(entry, answer))
        for view in entry.views:
            self._draft.replace(req_id, view.name, view.blocks)
        return True

    def write(self, req_id: str, tokens: Sequence[int]) -> int | None:
        """The answer goes on with these tokens; how many of them there is room for, None for all.

        Only the views of a drafter of another family can become longer than what was admitted.
        """
        entry = self._entries[req_id]
        if entry.transcript is None or self._family is None:
            return None
        num_fitting = None
        for index, token in enumerate(tokens):
            entry.transcript.push((token,))
            lengths = {view.name: entry.length(view, 0) for view in entry.views}
            if num_fitting is None and not self.limits.holds(lengths["full"], lengths.get("base")):
                num_fitting = index + 1  # the last one is not read any more
        entry.tally.cross_family = self._family.report(entry.transcript)
        return num_fitting

    def num_to_read(self, req_id: str) -> int:
        """Tokens of both views still to be read before the request can decode."""
        return sum(view.num_to_read for view in self._entries[req_id].views)

    def read(self, req_id: str, num_tokens: int) -> int:
        """Plans to read up to so many tokens, once a plan, the full view first; returns how many.

        Fewer, or none, when this very step fills a block that the view can share instead.
        """
        entry, num_planned = self._entries[req_id], 0
        for view in entry.views:
            self._adopt(entry, view)
            num = min(view.num_to_read, num_tokens - num_planned)
            if num > 0 and not self._waits(view):
                num_planned += self._read(entry, view, num)
        return num_planned

    def cover(self, req_id: str, num_tokens: int) -> bool:
        """Makes room in both tables for the steps that follow `num_tokens`; False when no block is free."""
        entry = self._entries[req_id]
        before = [len(view.blocks) for view in entry.views]
        if not self._extend(entry, num_tokens):
            return False
        for view, num_before in zip(entry.views, before, strict=True):
            if len(view.blocks) > num_before:
                self._draft.append(req_id, view.name, view.blocks[num_before:])
        return True

    def forget_names(self) -> None:
        """No request finds blocks that others filled before; to be called with no request half read."""
        self.pool.forget_names()

    def take_plan(self) -> StepPlan:
        """What the worker has to do at this step; the next call begins another plan."""
        for block, name in self._draft.filled():
            self.pool.publish(block, name)
        plan, self._draft = self._draft.plan(), PlanDraft()
        return plan

    def _transcribe(self, entry: Entry, answer: Sequence[int]) -> None:
        """Writes the answer so far anew in the tokens of a drafter of another family."""
        if self._family is not None:
            entry.transcript = self._family.begin()
            entry.transcript.push(answer)
            entry.tally.cross_family = self._family.report(entry.transcript)

    def _extend(self, entry: Entry, num_tokens: int) -> bool:
        missing = [
            max(self.limits.blocks_of_view(entry.length(view, num_tokens)) - len(view.blocks), 0)
            for view in entry.views
        ]
        taken = self.pool.take(sum(missing))
        if taken is None:
            return False
        for view, num in zip(entry.views, missing, strict=True):
            view.blocks.extend(taken[:num])
            del taken[:num]
        return True

    def _adopt(self, entry: Entry, view: View) -> None:
        """Takes blocks that others have filled since, in place of the view's own empty ones."""
        block_size = self.limits.pool.block_size
        first = view.num_read // block_size
        if view.num_read % block_size or first >= len(view.names):
            return
        found = self.pool.find(view.names[first:])
        if not found:
            return
        self.pool.share(found)
        last = first + len(found)
        self.pool.give_back(view.blocks[first:last])
        view.blocks[first:last] = found
        view.num_read = last * block_size
        view.num_shared += len(found) * block_size
        self._note_cached(entry)
        self._draft.replace(entry.req_id, view.name, view.blocks)

    def _waits(self, view: View) -> bool:
        block_size = self.limits.pool.block_size
        first = view.num_read // block_size
        return (
            view.num_read % block_size == 0
            and first < len(view.names)
            and self._draft.is_computing(view.names[first])
        )

    def _read(self, entry: Entry, view: View, num: int) -> int:
        block_size, start, stop = self.limits.pool.block_size, view.num_read, view.num_read + num
        at_block = stop - stop % block_size
        if num < view.num_to_read and at_block > start:  # where others can take over from, and it from others
            stop = at_block
        filled = range(start // block_size, min(stop // block_size, len(view.names)))
        names = {view.names[index]: view.blocks[index] for index in filled}
        ids = view.ids[start * BYTES_PER_ID : stop * BYTES_PER_ID]
        self._draft.read(entry.req_id, view.name, start, ids, names)
        view.num_read = stop
        return stop - start

    def _give_back(self, entry: Entry) -> None:
        for view in entry.views:
            self.pool.give_back(view.blocks)
            view.blocks, view.num_read, view.num_shared = [], 0, 0

    def _note_cached(self, entry: Entry) -> None:
        if entry.num_begun == 1:  # later it finds blocks that it filled itself
            for view in entry.views:
                setattr(entry.tally.cached, "drafter" if view.name == "full" else "base", view.num_shared)

    def _new_request(self, entry: Entry, answer: Sequence[int]) -> NewRequest:
        full, base = entry.views[0], entry.views[-1]
        reading = entry.reading
        return NewRequest(
            req_id=entry.req_id,
            has_base=reading.has_base,
            prompt_len=entry.num_prompt,
            full=ViewPrompt(reading.full_delta, _tail(full.prompt)),
            base=ViewPrompt(reading.base_delta, _tail(base.prompt)),
            options=reading.options.model_dump(
                mode="json", include=set(AsymSpecOptions.model_fields), exclude_unset=True
            ),
            strict=reading.strict,
            images=tuple(self._unread(entry.images, full.num_read)),
            full_ids=full.prompt if entry.images else b"",
            answer=None if self._family is None else pack_ids(answer),
        )


def _tail(prompt: bytes) -> tuple[int, ...]:
    return tuple(unpack_ids(prompt[-NUM_REFED * BYTES_PER_ID :]))
