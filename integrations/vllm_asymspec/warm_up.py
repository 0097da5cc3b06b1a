"""A step for nobody: what is compiled or allocated at first use is there before the first request."""

from __future__ import annotations

import numpy as np
import torch

from .plan import Chunk, NewRequest, StepPlan, ViewPrompt
from .rounds import Rounds

__all__ = ["warm_up"]

PROMPT_LEN = 3  # the shortest of which the drafter reads something before the first round


def warm_up(rounds: Rounds) -> None:
    """Reads, drafts and judges for as many requests as there are slots, then for one; needs all slots free.

    Their views have no blocks, so all they write goes to block 0, which is nobody's.
    """
    shape, device = rounds.shape, rounds.device
    names = [f"warm-up {slot}" for slot in range(shape.num_requests)]
    new = [
        NewRequest(
            req_id=name,
            has_base=True,
            prompt_len=PROMPT_LEN,
            full=ViewPrompt(0, (0, 0)),
            base=ViewPrompt(0, (0, 0)),
            options={},
            strict=False,
            answer=b"",
        )
        for name in names
    ]
    first = np.zeros(PROMPT_LEN - 2, dtype="<i4").tobytes()
    rounds.apply(StepPlan(new=tuple(new), chunks=tuple(Chunk(name, "full", 0, first) for name in names)))
    for together in (names, names[:1]):
        rounds.propose(
            together,
            torch.zeros((len(together), 2), dtype=torch.int64, device=device),
            torch.full((len(together),), PROMPT_LEN, dtype=torch.int64, device=device),
            np.full(len(together), PROMPT_LEN),
            places=shape.num_places,
        )
        verifier = torch.zeros((len(together), shape.num_places, shape.logits_size), device=device)
        rounds.verify(together, verifier, np.full(len(together), shape.num_places - 1))
    rounds.take_counts()
    rounds.apply(StepPlan(gone=tuple(names)))
