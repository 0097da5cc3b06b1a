"""Both views of a call as a trace keeps them: messages with texts by digest, calls and results paired.

The form of a message, plain JSON throughout:
    role, name          as they are
    parts               its texts and other parts in order: `digest` and `num_chars` of the full view's text
                        (of another kind of part: `type`); where the compressed view differs `shown_digest`
                        and `num_shown_chars`; where it is a rendition `tier`, `compressor`, `tokens`,
                        `shown_tokens`, `degraded`; `cut` where the full view itself had to be cut
    calls               its tool calls: `name`, and `digest` and `num_chars` of the arguments
    result_of           [message, call] that a result answers
    turn, kind, tool    what the router read it as: its turn, "call" or "result", the tool of a result
    is_left_out         the compressed view has no such message (a summary stands for it)
    is_added            only the compressed view has it
The last element, with role "tools", has the tools offered, each a part with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..messages import ContentPart, Message, ToolSpec
from ..store import content_hash
from .prompt_size import as_written
from .routed import PartChange, RoutedContext
from .turns import History

__all__ = ["RecordedView", "recorded_view", "task_digest", "task_text"]

Places = Mapping[tuple[int, int | None], PartChange]


@dataclass(frozen=True, slots=True)
class RecordedView:
    """The messages in the form above, and every text that they name, by digest."""

    messages: tuple[dict[str, Any], ...]
    texts: dict[str, str]


def task_digest(messages: tuple[Message, ...]) -> str | None:
    """Digest of the first user message's texts, which tells conversations apart; None without one."""
    task = task_text(messages)
    return None if task is None else content_hash(task)


def task_text(messages: tuple[Message, ...]) -> str | None:
    """The first user message's texts; None without one."""
    task = next((message for message in messages if message.role == "user"), None)
    return None if task is None else "\n".join(task.texts())


def recorded_view(routed: RoutedContext, history: History | None = None) -> RecordedView:
    """Both views of a call, ready to be recorded; `history` is what was read in the full view's messages."""
    writer = _Writer(
        {} if history is None else _read_as(history),
        {(change.message, change.part): change for change in routed.report.changes},
        {(change.message, change.part): change for change in routed.report.drafter_cuts},
    )
    if routed.messages is None:
        for index, pair in enumerate(zip(routed.full, routed.compressed, strict=True)):
            writer.add(index, *pair, index)
    else:
        for source, place in _aligned(routed):
            before = None if source is None else routed.full[source]
            after = None if place is None else routed.messages[place]
            writer.add(source, before, after, place)
    writer.add_tools(routed.tools, routed.compressed_tools)
    task = task_text(routed.full)
    if task is not None:
        writer.texts[content_hash(task)] = task
    return RecordedView(tuple(writer.messages), writer.texts)


def _aligned(routed: RoutedContext) -> Iterator[tuple[int | None, int | None]]:
    """Indices of full and compressed messages that belong together, in the order of the full view."""
    shown_of = {source: at for at, source in enumerate(routed.sources) if source is not None}
    added = [at for at, source in enumerate(routed.sources) if source is None]
    for index in range(len(routed.full)):
        at = shown_of.get(index)
        while at is not None and added and added[0] < at:
            yield None, added.pop(0)
        yield index, at
    for at in added:
        yield None, at


def _read_as(history: History) -> dict[int, dict[str, Any]]:
    """Of each message in a turn: its turn from 1, and whether it holds calls or results."""
    found: dict[int, dict[str, Any]] = {}
    for part in history.parts:
        if part.turn is not None:
            said = found.setdefault(part.message, {"turn": part.turn + 1})
            if part.kind in ("call", "result"):
                said["kind"] = part.kind
            if part.tool is not None:
                said["tool"] = part.tool
    return found


@dataclass(slots=True)
class _Writer:
    read_as: Mapping[int, dict[str, Any]]
    changes: Places
    cuts: Places
    messages: list[dict[str, Any]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    _calls: dict[str | None, tuple[int, int]] = field(default_factory=dict)

    def add(self, index: int | None, full: Message | None, shown: Message | None, at: int | None) -> None:
        message = full or shown
        if message is None:
            return
        data: dict[str, Any] = {"role": message.role}
        if message.name is not None:
            data["name"] = message.name
        if full is None:
            data["is_added"] = True
        elif shown is None:
            data["is_left_out"] = True
        data["parts"] = [
            self._part(before, after, self.changes.get((at, place)) if at is not None else None, cut)
            for place, before, after, cut in self._places(index, full, shown)
        ]
        if index is not None:
            data |= self.read_as.get(index, {})
        row = len(self.messages)
        if message.tool_calls:
            data["calls"] = [self._call(row, number, call) for number, call in enumerate(message.tool_calls)]
        elif message.tool_call_id is not None and message.tool_call_id in self._calls:
            data["result_of"] = list(self._calls[message.tool_call_id])
        self.messages.append(data)

    def add_tools(self, tools: tuple[ToolSpec, ...], shown: tuple[ToolSpec, ...]) -> None:
        if tools:
            pairs = zip(tools, shown, strict=True) if len(tools) == len(shown) else ((t, t) for t in tools)
            parts = [
                {"name": tool.function.name if tool.function is not None else tool.type}
                | self._part(as_written(tool.wire()), as_written(short.wire()), None, None)
                for tool, short in pairs
            ]
            self.messages.append({"role": "tools", "parts": parts})

    def _places(
        self, index: int | None, full: Message | None, shown: Message | None
    ) -> Iterator[tuple[int | None, str | ContentPart | None, str | ContentPart | None, PartChange | None]]:
        before, after = _contents(full), _contents(shown)
        for number in range(max(len(before), len(after))):
            of = full or shown
            place = None if of is None or isinstance(of.content, str) else number
            cut = None if index is None else self.cuts.get((index, place))
            yield (
                place,
                before[number] if number < len(before) else None,
                after[number] if number < len(after) else None,
                cut,
            )

    def _part(
        self,
        before: str | ContentPart | None,
        after: str | ContentPart | None,
        change: PartChange | None,
        cut: PartChange | None,
    ) -> dict[str, Any]:
        data: dict[str, Any] = {}
        if isinstance(before, str):
            data |= {"digest": self._kept(before), "num_chars": len(before)}
        elif before is not None:
            data["type"] = before.type
        if isinstance(after, str) and after != before:
            data |= {"shown_digest": self._kept(after), "num_shown_chars": len(after)}
        if change is not None:
            data |= {
                "tier": change.tier.name.lower(),
                "compressor": change.compressor,
                "tokens": change.original_tokens,
                "shown_tokens": change.tokens,
            }
            if change.degraded:
                data["degraded"] = True
        if cut is not None:
            data["cut"] = {"compressor": cut.compressor, "tokens": cut.original_tokens}
        return data

    def _call(self, row: int, number: int, call: Any) -> dict[str, Any]:
        self._calls[call.id] = (row, number)
        if call.function is None:
            return {"name": call.type}
        arguments = as_written(call.function.arguments)
        return {
            "name": call.function.name,
            "digest": self._kept(arguments),
            "num_chars": len(arguments),
        }

    def _kept(self, text: str) -> str:
        digest = content_hash(text)
        self.texts[digest] = text
        return digest


def _contents(message: Message | None) -> list[str | ContentPart]:
    if message is None or message.content is None:
        return []
    if isinstance(message.content, str):
        return [message.content]
    return [part.text if part.type == "text" and part.text is not None else part for part in message.content]
