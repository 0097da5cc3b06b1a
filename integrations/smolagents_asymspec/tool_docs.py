"""The tool documentation that smolagents writes into system prompts, and the signatures that replace it.

Besides the `tools` field, both agents write every tool's documentation into the system prompt, so a verifier
that gets signatures as tools would read the prose all the same. Where the tools are at hand, the strings are
known. Where they are not (a CodeAgent passes none), the blocks of smolagents' own templates are recognised in
the text, as a pure function of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from asymspec_agents.compress.tool_docs import signature_text
from asymspec_agents.messages import Message, parse_tools
from asymspec_agents.router import ToolDoc

from ._compat import call_prompt, code_prompt, tool_schema

__all__ = ["docs_in_system_prompts", "docs_of_tools"]

MIN_PROSE_CHARS = 80  # a shorter description is not worth an edit of its own

# `Tool.to_code_prompt()` and the managed agents of the code templates; not a function that has a body.
_CODE_DOC = re.compile(
    r'^def (?P<name>\w+)\([^\n]*\) -> [^\n]+:\n    """.*?\n    """[ \t]*$(?!\n[ \t]+\S)',
    re.MULTILINE | re.DOTALL,
)
# `Tool.to_tool_calling_prompt()` and the managed agents of the tool-calling template, from their last lines.
_CALL_DOC_END = re.compile(
    r"^(?:    |  - )Takes inputs: (?P<inputs>\{.*\})\n"
    r"(?:    |  - )Returns an output of type: (?P<output>\w+)$",
    re.MULTILINE,
)
_CALL_DOC_START = re.compile(r"^- (?=(?P<name>\w+): )", re.MULTILINE)
_LIST_HEADING = re.compile(
    r"(?:access to these tools|leverage these tools|team members that you can call):\n(?=- )"
)


def docs_of_tools(tools: Iterable[Any]) -> tuple[ToolDoc, ...]:
    """What templates write for these tools and managed agents: both kinds of block, the bare description."""
    docs = [
        doc
        for tool in tools
        for make in (_call_doc, _code_doc, _bare_doc)
        if (doc := _made(make, tool)) is not None
    ]
    return tuple(doc for doc in docs if len(doc.signature) < len(doc.text))


def _made(make: Callable[[Any], ToolDoc | None], tool: Any) -> ToolDoc | None:
    try:
        return make(tool)
    except Exception:  # a schema instead of a tool, or a tool whose documentation no template could write
        return None


def _call_doc(tool: Any) -> ToolDoc:
    return ToolDoc(call_prompt(tool), _call_signature(tool.name, tool.inputs, tool.output_type))


def _code_doc(tool: Any) -> ToolDoc:
    return ToolDoc(code_prompt(tool), _code_signature(code_prompt(tool)))


def _bare_doc(tool: Any) -> ToolDoc | None:
    """For a template of the user's own that writes the description by itself."""
    if len(tool.description) < MIN_PROSE_CHARS:
        return None
    return ToolDoc(tool.description, _call_signature(tool.name, tool.inputs, tool.output_type))


def docs_in_system_prompts(messages: Sequence[Message]) -> tuple[ToolDoc, ...]:
    """The documentation blocks in the system messages that have the form of smolagents' own templates."""
    return tuple(
        doc
        for message in messages
        if message.role == "system"
        for text in message.texts()
        for doc in _docs_in(text)
    )


@lru_cache(maxsize=16)  # an agent's calls share their system prompt
def _docs_in(text: str) -> tuple[ToolDoc, ...]:
    docs = (*_code_docs(text), *_call_docs(text))
    return tuple(doc for doc in docs if len(doc.signature) < len(doc.text))


def _code_docs(text: str) -> list[ToolDoc]:
    return [ToolDoc(match[0], _code_signature(match[0])) for match in _CODE_DOC.finditer(text)]


def _call_docs(text: str) -> list[ToolDoc]:
    docs = []
    previous_end = 0
    for match in _CALL_DOC_END.finditer(text):
        start = _block_start(text, previous_end, match.start())
        previous_end = match.end()
        if start is None:
            continue
        try:
            inputs = ast.literal_eval(match["inputs"])
            signature = _call_signature(start["name"], inputs, match["output"])
        except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
            continue  # not smolagents' own writing after all
        docs.append(ToolDoc(text[start.end() : match.end()], signature))
    return docs


def _block_start(text: str, begin: int, end: int) -> re.Match[str] | None:
    """Where the block that ends behind `end` starts: its description may hold list items that look alike."""
    if begin and (follows := _CALL_DOC_START.match(text, begin + 1)):
        return follows
    if heading := _LIST_HEADING.search(text, begin, end):
        return _CALL_DOC_START.match(text, heading.end())
    starts = list(_CALL_DOC_START.finditer(text, begin, end))
    return starts[-1] if starts else None


def _code_signature(prompt: str) -> str:
    return prompt.partition("\n")[0] + " ..."


def _call_signature(name: str, inputs: dict[str, Any], output_type: str) -> str:
    schema = tool_schema(SimpleNamespace(name=name, description="", inputs=inputs))
    schema["function"]["returns"] = {"type": output_type}
    return signature_text(parse_tools([schema])[0])
