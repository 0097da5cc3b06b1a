"""API-Bank's own way to write a call: `[ApiName(key='value', other="[1, 2]")]`, found anywhere in a text.

The form is that of the official prompt (AlibabaResearch/DAMO-ConvAI, api-bank/evaluator.py). A call that is a
Python expression of literals is read as one. Others are read loosely, as models leave quotes out or nest
them: an argument ends where the next `, key=` begins or the call ends, and a quote ends a text only there.
(The official reader, api_call_extraction.py, ends a text at its first quote of either kind, so that
`attendees="['Ann']"` becomes `[`.)
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from typing import Any

from asymspec_agents.engine.tool_formats.pythonic import parse_python

from .calls import WrittenCall

__all__ = ["BracketCall", "read_bracket_call"]

MAX_CHARS = 20_000  # of a text that is looked through
MAX_ENDS = 64  # places at which a call may end
_OPENING = re.compile(r"\[\s*([A-Za-z_]\w*)\s*\(")
_CLOSING = re.compile(r"\)\s*[\],]")
_KEY = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*")
_NEXT = r"\s*(?:,\s*(?=[A-Za-z_]\w*\s*=)|,?\s*\Z)"
_QUOTED = {quote: re.compile(rf"{quote}(.*?){quote}{_NEXT}", re.DOTALL) for quote in "'\""}
_BARE = re.compile(rf"(.*?){_NEXT}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BracketCall:
    """A call; None where something begins like one and is none."""

    call: WrittenCall | None


def read_bracket_call(text: str) -> BracketCall | None:
    """The first call in a text; None where nothing looks like one."""
    opening = _OPENING.search(text, 0, MAX_CHARS)
    if opening is None:
        return None
    ends = itertools.islice(_CLOSING.finditer(text, opening.end(), MAX_CHARS), MAX_ENDS)
    closings = [found.start() for found in ends]
    for closing in closings:  # the first at which the call is whole: texts may hold brackets
        arguments = _literals(text[opening.end() : closing])
        if arguments is not None:
            return BracketCall(WrittenCall(opening[1], arguments))
    for closing in closings:
        arguments = _loosely(text[opening.end() : closing])
        if arguments is not None:
            return BracketCall(WrittenCall(opening[1], arguments))
    return BracketCall(None)


def _literals(inside: str) -> dict[str, Any] | None:
    tree = parse_python(f"f({inside}\n)")
    expression = tree.body[0] if tree is not None and len(tree.body) == 1 else None
    call = expression.value if isinstance(expression, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        return None
    arguments: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            return None
        try:
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
    return arguments


def _loosely(inside: str) -> dict[str, Any] | None:
    arguments: dict[str, Any] = {}
    at = 0
    while inside[at:].strip():
        key = _KEY.match(inside, at)
        if key is None or key[1] in arguments:
            return None
        quoted = _QUOTED.get(inside[key.end() : key.end() + 1])
        value = (quoted or _BARE).match(inside, key.end())
        if value is None:
            return None
        arguments[key[1]] = value[1].strip()
        at = value.end()
    return arguments
