"""The verifier's view of tools: signatures in place of schemas and of known docs in the system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compress.tool_docs import signature_schema
from ..messages import Message, ToolSpec
from ..protocol import Edit, apply_edits
from .prompt_size import tools_tokens
from .turns import SYSTEM_ROLES, message_texts

__all__ = ["ShortenedDocs", "ToolDoc", "shorten_docs", "signature_tools"]


@dataclass(frozen=True, slots=True)
class ToolDoc:
    """A tool's documentation as it stands in a system prompt, and the signature that replaces it there."""

    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class ShortenedDocs:
    """Messages whose system prompts have signatures for tool docs, and how many docs were replaced."""

    messages: tuple[Message, ...]
    num_shortened: int


def signature_tools(
    tools: tuple[ToolSpec, ...], count: Callable[[str], int], min_gain: float
) -> tuple[ToolSpec, ...]:
    """Each tool's signature; the tools themselves where that saves less than `min_gain` of their tokens."""
    signatures = tuple(_signature(tool) for tool in tools)
    if tools_tokens(signatures, count) > tools_tokens(tools, count) * (1 - min_gain):
        return tools
    return signatures


def _signature(tool: ToolSpec) -> ToolSpec:
    try:
        return signature_schema(tool)
    except Exception:  # a schema too odd to shorten never stops an agent
        return tool


def shorten_docs(
    messages: tuple[Message, ...],
    docs: Sequence[ToolDoc],
    count: Callable[[str], int],
    min_gain: float,
) -> ShortenedDocs:
    """Replaces every occurrence of each doc in system prompts, where its signature saves `min_gain`."""
    worth = [doc for doc in docs if doc.text and count(doc.signature) <= count(doc.text) * (1 - min_gain)]
    if not worth:
        return ShortenedDocs(messages, 0)
    worth.sort(key=lambda doc: -len(doc.text))  # a doc may be part of a longer one
    edits: list[Edit] = []
    num_shortened = 0
    for index, message in enumerate(messages):
        if message.role not in SYSTEM_ROLES:
            continue
        for part, text in message_texts(message):
            spans = _spans(text, worth)
            if spans:
                edits.append(Edit(message=index, part=part, text=_replaced(text, spans)))
                num_shortened += len(spans)
    return ShortenedDocs(apply_edits(messages, edits), num_shortened)


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    start: int
    end: int
    signature: str


def _spans(text: str, docs: Sequence[ToolDoc]) -> list[_Span]:
    """Where the docs stand, in order and without overlaps; earlier docs in the list take precedence."""
    taken: list[_Span] = []
    for doc in docs:
        start = text.find(doc.text)
        while start >= 0:
            end = start + len(doc.text)
            if all(end <= span.start or start >= span.end for span in taken):
                taken.append(_Span(start, end, doc.signature))
                start = text.find(doc.text, end)
            else:
                start = text.find(doc.text, start + 1)
    return sorted(taken)


def _replaced(text: str, spans: Sequence[_Span]) -> str:
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], span.signature)
        position = span.end
    return "".join((*pieces, text[position:]))
