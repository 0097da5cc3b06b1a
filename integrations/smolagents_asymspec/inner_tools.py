"""Copies of tools that show a model their signatures only."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from asymspec_agents.messages import ToolSpec

__all__ = ["signature_copies"]


def signature_copies(tools: Sequence[Any], compressed: Sequence[ToolSpec]) -> list[Any]:
    """For each tool or managed agent a copy with the compressed schema's inputs and description.

    Names, types and what is required stay; the originals, which agents run and check arguments with, are not
    touched. A tool whose schema was not shortened, or that cannot be copied, is handed on itself.
    """
    if len(tools) != len(compressed):
        return list(tools)
    return [_signature_tool(tool, spec) for tool, spec in zip(tools, compressed, strict=True)]


def _signature_tool(tool: Any, spec: ToolSpec) -> Any:
    function = spec.function
    properties = (function.parameters or {}).get("properties") if function is not None else None
    if function is None or not hasattr(tool, "inputs") or not isinstance(properties, dict):
        return tool
    if properties.keys() != tool.inputs.keys():
        return tool
    # `nullable` is how smolagents marks what is not required; a standard schema has no such keyword.
    inputs = {
        name: {**schema, "nullable": True} if tool.inputs[name].get("nullable") else dict(schema)
        for name, schema in properties.items()
    }
    try:
        shown = copy.copy(tool)
        shown.description = function.description or ""
        shown.inputs = inputs
    except Exception:  # a tool of the user's own, with a copy of its own
        return tool
    return shown
