"""What a worker's pool holds, as plans and draft rounds leave it; finds any plan that breaks its word.

A place holds the hash of the view's tokens up to and including its own, as keys and values would depend on
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_asymspec.budget import Limits
from vllm_asymspec.plan import NewRequest, StepPlan
from vllm_asymspec.wire_args import unpack_ids


@dataclass
class Known:
    """A request from outside: the drafter's prompts, the length of the verifier's, the salt of its cache."""

    full: list[int]
    base: list[int]
    num_compressed: int
    salt: str | None


@dataclass
class Slot:
    """What the worker knows of a request."""

    new: NewRequest
    tables: dict[str, list[int]] = field(default_factory=lambda: {"full": [], "base": []})


def prefix_hashes(ids: Sequence[int], salt: object) -> list[int]:
    """What the places of a view must hold."""
    found, last = [], hash(("start", salt))
    for token in ids:
        last = hash((last, token))
        found.append(last)
    return found


class PoolMemory:
    """The pool's places and the requests' tables. `known`: the requests there are, by name."""

    def __init__(self, limits: Limits, num_slots: int) -> None:
        self.limits = limits
        self.num_slots = num_slots
        self.known: dict[str, Known] = {}
        self.slots: dict[str, Slot] = {}
        self.places: dict[tuple[int, int], int] = {}

    def apply(self, plan: StepPlan, tokens_of: Mapping[str, list[int]]) -> int:
        """Does a step's plan; returns how many tokens it read. `tokens_of`: the verifier's sequences."""
        for req_id in plan.gone:
            del self.slots[req_id]  # it names only what the worker knows
        for new in plan.new:
            assert new.req_id not in self.slots
            known = self.known[new.req_id]
            assert new.prompt_len == known.num_compressed
            views = [(new.full, known.full)] + ([(new.base, known.base)] if new.has_base else [])
            for told, prompt in views:
                assert told.delta == len(prompt) - known.num_compressed
                assert list(told.tail) == prompt[-2:]
            self.slots[new.req_id] = Slot(new)
        assert len(self.slots) <= self.num_slots
        self._extend(plan)
        assert len({(chunk.req_id, chunk.view) for chunk in plan.chunks}) == len(plan.chunks)
        reads = []
        for chunk in plan.chunks:
            ids = list(unpack_ids(chunk.ids))
            view = self.view(chunk.req_id, chunk.view, tokens_of[chunk.req_id])
            stop = chunk.start + len(ids)
            assert ids
            assert ids == view[chunk.start : stop]
            assert stop <= len(view) - 2
            self._write(chunk.req_id, chunk.view, view, range(chunk.start, stop))
            reads.append((chunk, view, stop))
        for chunk, view, stop in reads:  # one forward: everything is written before any of it is read
            self.check_holds(chunk.req_id, chunk.view, view, stop)
        return sum(len(unpack_ids(chunk.ids)) for chunk in plan.chunks)

    def round(self, req_id: str, tokens: list[int], drafts: list[int]) -> None:
        """A draft round behind `tokens`: reads each view's last two tokens, then each draft but the last."""
        for view in ("full", "base") if self.slots[req_id].new.has_base else ("full",):
            ids = self.view(req_id, view, tokens)
            self.check_holds(req_id, view, ids, len(ids) - 2)
            written = range(max(len(ids) - 2, 0), len(ids) + len(drafts) - 1)
            self._write(req_id, view, ids + drafts, written)

    def view(self, req_id: str, view: str, tokens: list[int]) -> list[int]:
        """A view's tokens, where the verifier's are `tokens`."""
        known = self.known[req_id]
        return (known.base if view == "base" else known.full) + tokens[known.num_compressed :]

    def check_holds(self, req_id: str, view: str, ids: list[int], num_tokens: int) -> None:
        """The view's first places must hold what they should."""
        hashes = prefix_hashes(ids, self.known[req_id].salt)
        for position in range(num_tokens):
            held = self.places.get(self._place(req_id, view, position))
            assert held == hashes[position], (req_id, view, position)

    def _extend(self, plan: StepPlan) -> None:
        for blocks in plan.blocks:
            table = self.slots[blocks.req_id].tables[blocks.view]
            if blocks.replace:
                table.clear()
            table.extend(blocks.block_ids)
            assert len(set(table)) == len(table)
            assert all(0 < block < self.limits.pool.num_blocks for block in table)

    def _place(self, req_id: str, view: str, position: int) -> tuple[int, int]:
        table, size = self.slots[req_id].tables[view], self.limits.pool.block_size
        return table[position // size], position % size

    def _write(self, req_id: str, view: str, ids: list[int], positions: range) -> None:
        hashes = prefix_hashes(ids, self.known[req_id].salt)
        for position in positions:
            self.places[self._place(req_id, view, position)] = hashes[position]
