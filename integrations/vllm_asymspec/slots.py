"""What the worker keeps of each AsymSpec request: its rule, its tables of blocks, its last draft round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.decoding.rule import RowParameters
from asymspec_agents.protocol import AsymSpecOptions

from .plan import Blocks, NewRequest, StepPlan
from .seen import SeenView

__all__ = ["LastRound", "Shape", "SlotRequest", "Slots", "on_device"]

TAIL = 2  # tokens every draft round reads again
VIEWS = ("full", "base")


def on_device(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of host values, copied without waiting for the device."""
    host = torch.as_tensor(values, dtype=dtype)
    return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the buffers are.

    `num_places`: the most proposals of a round (K + 1). `vocab_size`: ids that may be emitted;
    `logits_size`: columns of the drafter's logits, padding included. `max_positions`: positions a view may
    come to use, with its answer and the drafts behind it. `block_size`: tokens of a block of the pool.
    """

    num_requests: int
    num_places: int
    vocab_size: int
    logits_size: int
    max_positions: int
    block_size: int

    @property
    def table_width(self) -> int:
        """Columns of a view's table."""
        return -(-self.max_positions // self.block_size)


@dataclass(frozen=True, slots=True)
class LastRound:
    """How many places a round drafted, and how many of these drafts the verifier may have read since.

    None of the first round's: it is made where a prompt ends, and judged at once. vLLM may pad such a step
    with placeholders for drafts, which say nothing.
    """

    num_places: int
    max_read: int


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """How one request decodes. `kind` is its rule without the numbers, which lie in the slot's row.

    `deltas`: the lengths of its VIEWS less that of the verifier's sequence.
    """

    kind: Rule
    num_drafts: int
    bonus: BonusMode
    has_base: bool
    deltas: tuple[int, int]

    @property
    def num_places(self) -> int:
        """Proposals of a whole round of this request."""
        return self.num_drafts + (self.bonus == "rule")

    def length(self, num_tokens: int, view: str) -> int:
        """Tokens of a view where the verifier's sequence has `num_tokens`."""
        return num_tokens + self.deltas[VIEWS.index(view)]


class Slots:
    """Buffers with a row for each request; names lead to rows on the host, nothing is read back.

    tables [2·S, width] holds the full views' blocks in the even rows, the base views' in the odd ones; block
    0 belongs to nobody, so what lies beyond a table reads and writes there.
    """

    def __init__(self, shape: Shape, logits_dtype: torch.dtype, device: torch.device) -> None:
        self.shape = shape
        self.device = device
        num_requests, num_places = shape.num_requests, shape.num_places
        self.tables = torch.zeros((2 * num_requests, shape.table_width), dtype=torch.int32, device=device)
        self.deltas = torch.zeros((num_requests, len(VIEWS)), dtype=torch.int64, device=device)
        self.prompt_lens = torch.zeros(num_requests, dtype=torch.int64, device=device)
        self.tails = torch.zeros((num_requests, len(VIEWS), TAIL), dtype=torch.int64, device=device)
        self.numbers = torch.zeros((num_requests, 5), dtype=torch.float32, device=device)
        self.drafts = torch.zeros((num_requests, num_places), dtype=torch.int64, device=device)
        logits = (num_requests, num_places, shape.logits_size)
        self.full_logits = torch.zeros(logits, dtype=logits_dtype, device=device)
        self.base_logits = torch.zeros(logits, dtype=logits_dtype, device=device)
        self._slot_of: dict[str, int] = {}
        self._free = list(range(num_requests - 1, -1, -1))
        self._requests: dict[str, SlotRequest] = {}
        self._num_blocks = [0] * (2 * num_requests)
        self.last_rounds: dict[str, LastRound] = {}  # of the requests that had one
        self.shifts = torch.zeros(num_requests, dtype=torch.int64, device=device)
        self._seen: dict[str, SeenView] = {}

    def __contains__(self, req_id: object) -> bool:
        return req_id in self._slot_of

    def __len__(self) -> int:
        return len(self._slot_of)

    def request(self, req_id: str) -> SlotRequest:
        """How that request decodes."""
        return self._requests[req_id]

    def rows(self, req_ids: Sequence[str]) -> Tensor:
        """The requests' slots [R]."""
        return on_device([self._slot_of[req_id] for req_id in req_ids], torch.int64, self.device)

    def table_row(self, req_id: str, view: str) -> int:
        """The row of `tables` that is this view's."""
        return 2 * self._slot_of[req_id] + VIEWS.index(view)

    def see(self, views: Mapping[str, SeenView]) -> None:
        """The requests' full views have images: what positions they make of the tokens."""
        if views:
            self._seen.update(views)
            shifts = self._ints([seen.shift for seen in views.values()])
            self.shifts[self.rows(list(views))] = shifts

    def seen(self, req_id: str, view: str) -> SeenView | None:
        """A view with images; None for one of text."""
        return self._seen.get(req_id) if view == "full" else None

    def parameters(self, rows: Tensor) -> RowParameters:
        """The numbers of those slots' rules."""
        return RowParameters(*self.numbers[rows].unbind(dim=1))

    def apply(self, plan: StepPlan) -> None:
        """Forgets, makes and extends slots as the plan says; its chunks are for others."""
        for req_id in plan.gone:
            self._forget(req_id)
        self._add(plan.new)
        self._extend(plan.blocks)

    def _forget(self, req_id: str) -> None:
        slot = self._slot_of.pop(req_id, None)
        if slot is not None:
            del self._requests[req_id]
            self.last_rounds.pop(req_id, None)
            self._seen.pop(req_id, None)
            self._free.append(slot)

    def _add(self, requests: Sequence[NewRequest]) -> None:
        if not requests:
            return
        numbers, tails = [], []
        for new in requests:
            self._forget(new.req_id)
            if not self._free:
                raise RuntimeError(f"{len(self)} AsymSpec requests have all slots; the plan adds one more")
            slot = self._free.pop()
            self._slot_of[new.req_id] = slot
            self._num_blocks[2 * slot] = self._num_blocks[2 * slot + 1] = 0
            self._requests[new.req_id], rule = _read(new, self.shape.num_places - 1)
            scale = 1.0 if rule.scale is None else rule.scale
            numbers.append((rule.beta, rule.gamma, rule.slack, scale, rule.plausibility))
            tails.append([((0,) * TAIL + tuple(view.tail))[-TAIL:] for view in (new.full, new.base)])
        rows = self.rows([new.req_id for new in requests])
        self.shifts[rows] = 0
        self.deltas[rows] = self._ints([(new.full.delta, new.base.delta) for new in requests])
        self.prompt_lens[rows] = self._ints([new.prompt_len for new in requests])
        self.tails[rows] = self._ints(tails)
        self.numbers[rows] = on_device(numbers, torch.float32, self.device)
        self.tables[2 * rows] = 0
        self.tables[2 * rows + 1] = 0

    def _extend(self, blocks: Sequence[Blocks]) -> None:
        rows, columns, values = [], [], []
        emptied = []
        for extension in blocks:
            row = self.table_row(extension.req_id, extension.view)
            if extension.replace:
                emptied.append(row)
                self._num_blocks[row] = 0
            start, count = self._num_blocks[row], len(extension.block_ids)
            self._num_blocks[row] = start + count
            rows.append(np.full(count, row))
            columns.append(np.arange(start, start + count))
            values.append(np.asarray(extension.block_ids, dtype=np.int32))
        if emptied:
            self.tables[self._ints(emptied)] = 0
        if rows:
            place = self._ints(np.concatenate(rows)), self._ints(np.concatenate(columns))
            self.tables[place] = on_device(np.concatenate(values), torch.int32, self.device)

    def _ints(self, values: Any) -> Tensor:
        return on_device(values, torch.int64, self.device)


def _read(new: NewRequest, max_drafts: int) -> tuple[SlotRequest, Rule]:
    """How the request decodes, and its rule with the numbers."""
    options = AsymSpecOptions.of(**new.options)
    rule = Rule("strict", "none") if new.strict else options.rule()
    kind = replace(
        Rule(rule.gate, rule.delta), agreement=rule.agreement, scale=None if rule.scale is None else 1.0
    )
    num_drafts = min(options.num_draft_tokens, max_drafts)
    deltas = new.full.delta, new.base.delta
    return SlotRequest(kind, num_drafts, options.bonus, new.has_base, deltas), rule
