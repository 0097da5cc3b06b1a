"""The most memory this process had since a moment: resident memory on Linux, that of a CUDA device."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PeakMemory"]

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # proc(5): sets the high water mark to what is resident now


class PeakMemory:
    """Begins to watch when made. One at a time: a later one moves the mark of those before it."""

    def __init__(self, device: str) -> None:
        self._is_cuda = device.startswith("cuda")
        self._device = device
        self._is_reset = self._reset()

    def __call__(self) -> int | None:
        """Bytes at the peak since then; None where the system does not tell, or not since when."""
        if self._is_cuda:
            import torch

            return int(torch.cuda.max_memory_allocated(self._device))
        if not self._is_reset:
            return None
        try:
            found = re.search(r"^VmHWM:\s+(\d+) kB", STATUS.read_text("ascii", "replace"), re.MULTILINE)
        except OSError:
            return None
        return None if found is None else int(found[1]) * 1024

    def _reset(self) -> bool:
        if self._is_cuda:
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)
            return True
        try:
            CLEAR_REFS.write_text(RESET_PEAK, "ascii")
        except OSError:  # another system, or one that forbids it
            return False
        return True
