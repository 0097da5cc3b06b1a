"""The driver of a backend that never launches: it says that there is a CPU."""

from __future__ import annotations

from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

NEVER = "under Triton's interpreter nothing is compiled or launched"


class InterpreterDriver(DriverBase):  # type: ignore[misc]
    """Only named, as the compiler."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise RuntimeError(NEVER)

    def get_current_target(self) -> Any:
        return GPUTarget("cpu", 0, 1)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        raise RuntimeError(NEVER)
