"""The one kernel of vLLM's that Triton's interpreter can't run, in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

KERNEL = "vllm.v1.worker.gpu.structured_outputs._apply_grammar_bitmask_kernel"


def apply_grammar_bitmask(
    logits: Tensor,
    logits_stride: int,
    logits_indices: Tensor,
    cu_num_logits: Tensor,
    bitmask: Tensor,
    bitmask_stride: int,
    vocab_size: int,
    MASK_STRIDE: int,  # noqa: N803
    BLOCK_SIZE: int,  # noqa: N803
) -> None:
    """Sets what each row's grammar forbids to -inf; bit i of a row of masks is token i's."""
    bits = torch.arange(32, dtype=torch.int32)
    for row, mapping in enumerate(logits_indices[: len(bitmask)].tolist()):
        request, position = divmod(mapping, MASK_STRIDE)
        first, end = cu_num_logits[request : request + 2].tolist()
        if first + position < end:
            allowed = ((bitmask[row][:, None] >> bits) & 1).flatten()[:vocab_size].bool()
            logits[first + position].masked_fill_(~allowed, float("-inf"))


def register(*_: Any) -> None:
    """Called by vLLM in each of its processes."""
    from vllm.triton_utils.dispatcher import register_kernels

    register_kernels({KERNEL: apply_grammar_bitmask})
