"""Tools for the tests of actions."""

from __future__ import annotations

from typing import Any

READ_LOG: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "Reads the log of a service. " + "It explains itself at great length. " * 20,
        "parameters": {
            "type": "object",
            "properties": {
                "service": {"type": "string"},
                "lines": {"type": "integer"},
                "since": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "deep": {"type": "boolean"},
                "pages": {"type": "array", "items": {"type": "integer"}},
                "filter": {"type": "object"},
            },
            "required": ["service"],
            "additionalProperties": False,
        },
    },
}
FINAL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "final_answer",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
        },
    },
}
TOOLS = [READ_LOG, FINAL]
