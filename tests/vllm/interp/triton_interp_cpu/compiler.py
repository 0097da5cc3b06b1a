"""The compiler of a backend that never compiles."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend

NEVER = "under Triton's interpreter nothing is compiled or launched"


class InterpreterBackend(BaseBackend):  # type: ignore[misc]
    """Only named; asking it for anything is a mistake."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        return bool(target.backend == "cpu")

    def hash(self) -> str:
        return "interpreter"

    def parse_options(self, options: dict[str, Any]) -> Any:
        raise RuntimeError(NEVER)

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        raise RuntimeError(NEVER)

    def load_dialects(self, context: Any) -> None:
        raise RuntimeError(NEVER)

    def get_module_map(self) -> dict[str, Any]:
        raise RuntimeError(NEVER)
