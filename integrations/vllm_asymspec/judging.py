"""The verdict on a round: requests grouped by rule, each group judged by the one implementation of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.rule import BlockResult, verify_block

from .plan import COUNTS, StepCounts
from .slots import SlotRequest, Slots, on_device

__all__ = ["PendingCounts", "Verdict", "judge"]

NUM_CACHED_VALUES = 2**20  # on a CPU the rule runs twice as fast over what stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Verdict:
    """tokens [R, K + 1] int64, -1 from num_tokens [R] on."""

    tokens: Tensor
    num_tokens: Tensor


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """A step's counts [R, len(COUNTS)], possibly still being computed or copied."""

    req_ids: tuple[str, ...]
    counts: Tensor

    @classmethod
    def joined(cls, parts: Sequence[PendingCounts]) -> PendingCounts:
        """The counts of several verifications, of different requests."""
        if len(parts) == 1:
            return parts[0]
        req_ids = tuple(req_id for part in parts for req_id in part.req_ids)
        return cls(req_ids, torch.cat([part.counts for part in parts]))

    def to_host(self) -> PendingCounts:
        """The counts on their way to the host; whoever reads them waits for the device first."""
        return PendingCounts(self.req_ids, self.counts.to("cpu", non_blocking=True))

    def read(self) -> StepCounts:
        """The counts as numbers."""
        return StepCounts(self.req_ids, self.counts.double().cpu().numpy())


@dataclass(frozen=True, slots=True)
class _Group:
    """What is judged in one call: a rule without its numbers, with or without the verifier's own token."""

    kind: Rule
    has_bonus: bool


def judge(
    slots: Slots, req_ids: Sequence[str], verifier: Tensor, num_scheduled: NDArray[np.int64]
) -> tuple[Verdict, PendingCounts]:
    """The verdict and the counts for requests with a round; see `Rounds.verify`."""
    device = verifier.device
    groups: dict[_Group, list[int]] = defaultdict(list)
    places: list[int] = []
    for i, req_id in enumerate(req_ids):
        last_round = slots.last_rounds[req_id]
        num_read = min(int(num_scheduled[i]), last_round.max_read)
        group, num_places = _group(slots.request(req_id), num_read)
        if num_places > last_round.num_places:
            raise RuntimeError(f"{req_id}: {num_places} places to judge, {last_round.num_places} drafted")
        groups[group].append(i)
        places.append(num_places)

    size = (len(req_ids), slots.shape.num_places)
    tokens = torch.full(size, -1, dtype=torch.int64, device=device)
    num_tokens = torch.zeros(len(req_ids), dtype=torch.int64, device=device)
    counts = torch.zeros((len(req_ids), len(COUNTS)), dtype=torch.float32, device=device)
    rows = slots.rows(req_ids)
    for group, members in _batches(groups, slots.shape.num_places * verifier.shape[-1], device):
        num_places = max(places[i] for i in members)
        index = on_device(members, torch.int64, device)
        num_drafts = on_device([places[i] for i in members], torch.int64, device)
        result = _judge_group(slots, group, rows[index], verifier[index], num_places, num_drafts)
        tokens[index, : result.tokens.shape[1]] = result.tokens
        num_tokens[index] = result.num_tokens
        counts[index] = _counts(result, num_drafts)
    return Verdict(tokens, num_tokens), PendingCounts(tuple(req_ids), counts)


def _group(request: SlotRequest, num_read: int) -> tuple[_Group, int]:
    """The group of a request and its places to judge.

    Where the verifier read no draft there is one, by the rule whatever the bonus: every step emits a token.
    """
    num_drafts = min(num_read, request.num_drafts)
    if num_drafts == 0:
        return _Group(request.kind, has_bonus=False), 1
    if request.bonus == "rule":
        return _Group(request.kind, has_bonus=False), num_drafts + 1
    return _Group(request.kind, has_bonus=request.bonus == "verifier"), num_drafts


def _batches(
    groups: Mapping[_Group, list[int]], num_values: int, device: torch.device
) -> Iterator[tuple[_Group, list[int]]]:
    """What is judged together: a group, on a CPU a few of its rows; `num_values`: logits of a request."""
    for group, members in groups.items():
        size = max(1, NUM_CACHED_VALUES // num_values) if device.type == "cpu" else len(members)
        for start in range(0, len(members), size):
            yield group, members[start : start + size]


def _judge_group(
    slots: Slots, group: _Group, rows: Tensor, verifier: Tensor, num_places: int, num_drafts: Tensor
) -> BlockResult:
    kind = group.kind
    reads_full = kind.gate != "strict"
    return verify_block(
        kind,
        slots.drafts[rows, :num_places],
        slots.full_logits[rows, :num_places] if reads_full else None,
        slots.base_logits[rows, :num_places] if kind.needs_base else None,
        verifier[:, : num_places + group.has_bonus],
        num_drafts=num_drafts,
        vocab_size=slots.shape.vocab_size,
        parameters=slots.parameters(rows),
    )


def _counts(result: BlockResult, num_drafts: Tensor) -> Tensor:
    """[rows, len(COUNTS)], in the order of COUNTS."""
    place = torch.arange(result.divergence.shape[1], device=num_drafts.device)
    judged = place < result.num_judged[:, None]
    columns = (
        num_drafts,
        result.num_accepted,
        result.num_fused,
        result.num_bonus,
        result.num_judged,
        torch.where(judged, result.divergence, 0.0).sum(dim=1),
    )
    return torch.stack([column.float() for column in columns], dim=1)
