"""A tool with long documentation and the prompt that goes with it, for agents on the real pair."""

from __future__ import annotations

from typing import Any, ClassVar

from smolagents import Tool

__all__ = ["SYSTEM", "Stock"]

SYSTEM = """You answer the user's task with tools. Call one tool at a time:
<tool_call>
{"name": "...", "arguments": {...}}
</tool_call>
When you know the answer, call final_answer with it."""
RULES = " ".join(f"Warehouse {n} counts belts of width {n * 7 % 31} mm in lots of {n}." for n in range(1, 21))


class Stock(Tool):
    name = "stock"
    description = f"Number of belts of a type in stock.\n{RULES}"
    inputs: ClassVar[dict[str, Any]] = {"belt": {"type": "string", "description": "Type of the belt"}}
    output_type = "integer"

    def forward(self, belt: str) -> int:
        return 12
