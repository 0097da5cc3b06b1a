"""A routed view back onto LangChain messages and tools, for a model that takes one view only.

Texts and tools' documentation are shortened; images, files and every other field are the caller's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import Edit, derive_edits
from asymspec_agents.router import RoutedContext

from .convert import WireMessages

__all__ = ["compressed_messages", "signature_tools"]


def compressed_messages(
    wire: WireMessages, routed_from: Sequence[Message], routed: RoutedContext
) -> list[BaseMessage]:
    """The compressed view of `wire.given`; `routed_from` is what the router got of it.

    Edits are taken against that, not against `routed.full`, which the drafter's limit may cut. Raises
    MessageError for a view that cannot be told with the caller's messages.
    """
    if routed.messages is None:
        return wire.edited(derive_edits(routed_from, routed.compressed))
    if len(wire.messages) != len(wire.given):
        raise MessageError("results inside a user's message cannot be shown beside a summary")
    return [
        HumanMessage("\n".join(message.texts()))
        if source is None
        else _shown(wire, routed_from, source, message)
        for message, source in zip(routed.messages, routed.sources, strict=True)
    ]


def _shown(wire: WireMessages, routed_from: Sequence[Message], source: int, message: Message) -> BaseMessage:
    given = routed_from[source]
    try:
        edits, summary = derive_edits((given,), (message,)), None
    except MessageError:  # a summary stands before the message's own words
        if not isinstance(message.content, tuple) or message.content[0].text is None:
            raise
        own = message.model_copy(update={"content": message.content[1:]})
        edits, summary = derive_edits((given,), (own,)), message.content[0].text
    here = [Edit(message=source, part=edit.part, text=edit.text) for edit in edits]
    edited = wire.edited(here)[source]
    if summary is None:
        return edited
    return edited.model_copy(update={"content": [{"type": "text", "text": summary}, *edited.content]})


def signature_tools(
    tools: Sequence[Any], full: Sequence[ToolSpec], compressed: Sequence[ToolSpec]
) -> list[Any]:
    """For each tool a copy with the compressed schema and description; the tool itself where both are equal.

    Only what a model is bound to: agents run and check arguments with the tools themselves.
    """
    return [
        tool if spec == short else _signature_tool(tool, short)
        for tool, spec, short in zip(tools, full, compressed, strict=True)
    ]


def _signature_tool(tool: Any, spec: ToolSpec) -> Any:
    if spec.function is None:
        return tool
    if not isinstance(tool, BaseTool):  # a schema; a provider's own format is left alone
        is_ours = isinstance(tool, Mapping) and "function" in tool
        return {**tool, "function": spec.function.wire()} if is_ours else tool
    parameters = dict(spec.function.parameters or {"type": "object", "properties": {}})
    description = spec.function.description or ""
    try:  # a copy keeps what providers hang on a tool, such as cache control
        return tool.model_copy(update={"description": description, "args_schema": parameters})
    except Exception:  # a tool of the user's own, with a copy of its own
        return tool
