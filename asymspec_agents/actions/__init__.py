"""Agents that write their actions as JSON: reading, checking and asking again, without native tool calls."""

from .action import Action
from .caller import ActionCaller, Step
from .reading import read_actions
from .results import result_message
from .tool import tool_spec

__all__ = ["Action", "ActionCaller", "Step", "read_actions", "result_message", "tool_spec"]
