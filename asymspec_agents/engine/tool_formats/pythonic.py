"""Calls as Python: Gemma's tool_code fence, Llama's lists of calls. Parsed, literals only, never run."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from ...messages import FunctionCall
from .base import Block, ToolFormat, Tools, block_until, function_call

__all__ = ["PYTHONIC", "TOOL_CODE", "parse_python", "read_code"]

_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
_JSON_NAMES = {"true": True, "false": False, "null": None}


def read_code(source: str, tools: Tools) -> tuple[FunctionCall, ...]:
    """The calls of code that is nothing but calls of tools that exist, alone, printed, or in lists."""
    tree = parse_python(source)
    calls: list[FunctionCall] = []
    for statement in tree.body if tree is not None else ():
        if not isinstance(statement, ast.Expr):
            return ()
        value = statement.value
        for item in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            call = _call_of(item, tools)
            if call is None:
                return ()
            calls.append(call)
    return tuple(calls)


def parse_python(source: str) -> ast.Module | None:
    """The syntax tree; None for what is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in the model's strings
        try:
            return ast.parse(source.strip())
        except _UNREADABLE:
            return None


def _call_of(node: ast.expr, tools: Tools) -> FunctionCall | None:
    if not isinstance(node, ast.Call):
        return None
    is_printed = isinstance(node.func, ast.Name) and node.func.id == "print" and "print" not in tools
    if is_printed and len(node.args) == 1 and not node.keywords:
        return _call_of(node.args[0], tools)
    name = _tool_name(_dotted(node.func), tools)
    if name is None or node.args:
        return None
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            return None
        try:
            arguments[keyword.arg] = ast.literal_eval(_JsonNames().visit(keyword.value))
        except _UNREADABLE:
            return None
    return function_call(name, arguments)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written; empty for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def _tool_name(dotted: str, tools: Tools) -> str | None:
    """The tool a dotted name means: itself, `module.tool`, or Llama's built-in `tool.call`."""
    names = (dotted, dotted.rpartition(".")[2], dotted.removesuffix(".call"))
    return next((name for name in names if name in tools), None)


class _JsonNames(ast.NodeTransformer):
    """Turns JSON's constants, which models mix into Python, into Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_JSON_NAMES[node.id]) if node.id in _JSON_NAMES else node


_FENCE, _FENCE_END = "```tool_code", "```"


def _read_fence(text: str, start: int, tools: Tools) -> Block | None:
    start += len(_FENCE)
    end = text.find("\n" + _FENCE_END, start)  # a fence within a line may stand in a string
    end = end + 1 if end >= 0 else text.find(_FENCE_END, start)
    source = text[start:] if end < 0 else text[start:end]
    calls = read_code(source, tools)
    return Block(calls, len(text) if end < 0 else end + len(_FENCE_END)) if calls else None


TOOL_CODE = ToolFormat("tool_code", ("tool_code", "<start_of_turn>"), (_FENCE,), _read_fence)


_START, _END = "<|python_start|>", "<|python_end|>"
_MARK = re.compile(r"<\|python_(?:start|end)\|>")


def _read_marked(text: str, start: int, tools: Tools) -> Block | None:
    start += len(_START)
    mark = _MARK.search(text, start)
    end = mark.start() if mark else len(text)
    return block_until(text, end, read_code(text[start:end], tools), _END, (_START,))


def _read_list(text: str, tools: Tools) -> tuple[FunctionCall, ...]:
    body = text.strip()
    return read_code(body, tools) if body.startswith("[") and body.endswith("]") else ()


PYTHONIC = ToolFormat(
    "pythonic",
    (_START, "<|header_start|>", "<|start_header_id|>", "<start_of_turn>", "func_name1("),
    (_START,),
    _read_marked,
    marks=(_END,),
    read_whole=_read_list,
)
