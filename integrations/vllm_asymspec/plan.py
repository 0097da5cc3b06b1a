"""What the scheduler tells the worker at every step, and what the worker counts for it.

A plan travels as attribute `asymspec` of the scheduler's output, counts as attribute `asymspec` of the model
runner's. Both are plain values: they are pickled, and every rank of a tensor-parallel group gets the same
ones.

The pool's bookkeeping is the scheduler's alone; the worker owns tensors and does what the plan says. Whenever
a step schedules the last prompt token or a decode of a request, both its views' tables cover every position
the step may write, and every key and value up to the last-but-two token is computed, at the latest by the
chunks of this very plan. Block 0 is in no table: rows that only pad a batch may read and write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["COUNTS", "Blocks", "Chunk", "NewRequest", "StepCounts", "StepPlan", "ViewName", "ViewPrompt"]

ViewName = Literal["full", "base"]

COUNTS = ("places", "accepted", "fused", "bonus", "judged", "divergence_sum")


@dataclass(frozen=True, slots=True)
class ViewPrompt:
    """Where a view's prompt ends: `delta` is its length less that of the verifier's prompt.

    `tail` are its last two ids (one, if it has one): every draft round reads a view's last two tokens again,
    and prompts need not end alike.
    """

    delta: int
    tail: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request the worker has to make a slot for.

    `prompt_len` is the length of the verifier's prompt, without the answer so far of a resumed request.
    `options` are the fields of AsymSpecOptions as given. `strict`: the views are identical, so the rule is
    `strict` whatever the options say. Without `has_base` there is no base view, and `base` means nothing; a
    rule that needs one takes the full view's logits for it, as the views are then identical. `images` are
    those of the full prompt (see images.py), without data where the drafter need not look at them again;
    `full_ids` is that prompt, given where it has any, for their positions. `answer` is given for a drafter of
    another family: the answer so far of a resumed request, in the verifier's ids (int32).
    """

    req_id: str
    has_base: bool
    prompt_len: int
    full: ViewPrompt
    base: ViewPrompt
    options: dict[str, Any]
    strict: bool
    images: tuple[Any, ...] = ()
    full_ids: bytes = b""
    answer: bytes | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks appended to a view's table, or with `replace` a table that takes the place of the view's."""

    req_id: str
    view: ViewName
    block_ids: tuple[int, ...]
    replace: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of a view to read: int32, the first at position `start`."""

    req_id: str
    view: ViewName
    start: int
    ids: bytes


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step's work, done in the order of the fields.

    `gone`: requests to forget (finished, aborted, preempted, or back in the queue); a name in it may come
    again in `new`. A view has at most one chunk and one entry in `blocks`.
    """

    gone: tuple[str, ...] = ()
    new: tuple[NewRequest, ...] = ()
    blocks: tuple[Blocks, ...] = ()
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What a step's verification counted: a row for each request, a column for each of COUNTS.

    `places` are the proposals judged or skipped behind a refusal, `judged` those the gate saw,
    `divergence_sum` (nats) runs over the judged. Values are increments.
    """

    req_ids: tuple[str, ...]
    counts: NDArray[np.float64]  # [R, 6]
