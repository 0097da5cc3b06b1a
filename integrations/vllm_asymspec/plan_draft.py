"""The plan of one step while it is made: what the worker has to know, and which blocks get a name for it."""

from __future__ import annotations

from collections.abc import Sequence

from .plan import Blocks, Chunk, NewRequest, StepPlan, ViewName

__all__ = ["PlanDraft"]

_Key = tuple[str, ViewName]


class PlanDraft:
    """Collects a step's plan. What a request is given and loses again before the plan is sent leaves no
    trace.
    """

    def __init__(self) -> None:
        self._gone: dict[str, None] = {}
        self._new: dict[str, NewRequest] = {}
        self._blocks: dict[_Key, Blocks] = {}
        self._chunks: dict[_Key, Chunk] = {}
        self._names: dict[_Key, dict[bytes, int]] = {}
        self._computing: set[bytes] = set()

    def forget(self, req_id: str) -> None:
        """The request loses its slot."""
        if self._new.pop(req_id, None) is None:
            self._gone[req_id] = None
        for collected in (self._blocks, self._chunks, self._names):
            for key in [key for key in collected if key[0] == req_id]:
                del collected[key]
        self._computing = {name for names in self._names.values() for name in names}

    def add(self, request: NewRequest) -> None:
        """The request gets a slot."""
        self._new[request.req_id] = request

    def append(self, req_id: str, view: ViewName, blocks: Sequence[int]) -> None:
        """The view's table grows."""
        before = self._blocks.get((req_id, view))
        table = (*before.block_ids, *blocks) if before else tuple(blocks)
        self._blocks[req_id, view] = Blocks(req_id, view, table, before is not None and before.replace)

    def replace(self, req_id: str, view: ViewName, blocks: Sequence[int]) -> None:
        """The view gets another table."""
        self._blocks[req_id, view] = Blocks(req_id, view, tuple(blocks), True)

    def read(self, req_id: str, view: ViewName, start: int, ids: bytes, names: dict[bytes, int]) -> None:
        """The view is read further; `names` are those of the blocks this fills."""
        self._chunks[req_id, view] = Chunk(req_id, view, start, ids)
        self._names[req_id, view] = names
        self._computing.update(names)

    def is_computing(self, name: bytes) -> bool:
        """Whether this step fills the block of that name."""
        return name in self._computing

    def filled(self) -> list[tuple[int, bytes]]:
        """The blocks that are full once this plan is done, and their names."""
        return [(block, name) for names in self._names.values() for name, block in names.items()]

    def plan(self) -> StepPlan:
        """What was collected."""
        return StepPlan(
            gone=tuple(self._gone),
            new=tuple(self._new.values()),
            blocks=tuple(self._blocks.values()),
            chunks=tuple(self._chunks.values()),
        )
