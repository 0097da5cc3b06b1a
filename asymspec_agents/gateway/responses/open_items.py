"""Output items of a streamed Response while they grow: a message, a thought, a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from ...wire.reading import CallParts
from .response import (
    ItemStatus,
    call_item,
    message_item,
    new_id,
    reasoning_item,
    refusal_part,
    text_part,
)

__all__ = ["OpenCall", "OpenItem", "OpenMessage", "OpenReasoning"]

Events = Iterator[dict[str, Any]]


class OpenItem(ABC):
    """One output item; `index` is its place in the output."""

    def __init__(self, index: int, identity: str) -> None:
        self.index = index
        self.id = identity
        self.status: ItemStatus = "in_progress"

    @abstractmethod
    def wire(self) -> dict[str, Any]:
        """The item as it stands."""

    @abstractmethod
    def open(self) -> Events:
        """The events with which it begins."""

    @abstractmethod
    def close(self, status: ItemStatus) -> Events:
        """The events with which it ends."""

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """An event about this item."""
        return {"type": f"response.{kind}", "item_id": self.id, "output_index": self.index, **fields}

    def item_event(self, kind: str) -> dict[str, Any]:
        """An event that carries the item itself."""
        return {"type": f"response.output_item.{kind}", "output_index": self.index, "item": self.wire()}


class OpenText(OpenItem):
    """An item with one part of text; `name` is that of its events."""

    name: str

    def __init__(self, index: int, identity: str, part: str) -> None:
        super().__init__(index, identity)
        self.part = part
        self._texts: list[str] = []
        self._has_part = False

    @property
    def text(self) -> str:
        """What has come of it."""
        return "".join(self._texts)

    @abstractmethod
    def part_wire(self) -> dict[str, Any]:
        """The part as it stands."""

    def open(self) -> Events:
        yield self.item_event("added")
        yield self.event("content_part.added", content_index=0, part=self.part_wire())
        self._has_part = True

    def grow(self, text: str) -> Events:
        """The event of more text."""
        self._texts.append(text)
        yield self.event(f"{self.name}.delta", content_index=0, delta=text, **self.more())

    def close(self, status: ItemStatus) -> Events:
        field = "refusal" if self.part == "refusal" else "text"
        yield self.event(f"{self.name}.done", content_index=0, **{field: self.text}, **self.more())
        yield self.event("content_part.done", content_index=0, part=self.part_wire())
        self.status = status
        yield self.item_event("done")

    def more(self) -> dict[str, Any]:
        """Further fields of its text events."""
        return {}


class OpenMessage(OpenText):
    """The model's message: text, or a refusal."""

    def __init__(self, index: int, part: str) -> None:
        super().__init__(index, new_id("msg"), part)
        self.name = "refusal" if part == "refusal" else "output_text"

    def part_wire(self) -> dict[str, Any]:
        return refusal_part(self.text) if self.part == "refusal" else text_part(self.text)

    def wire(self) -> dict[str, Any]:
        return message_item(self.id, [self.part_wire()] if self._has_part else [], self.status)

    def more(self) -> dict[str, Any]:
        return {} if self.part == "refusal" else {"logprobs": []}


class OpenReasoning(OpenText):
    """What the model thinks."""

    name = "reasoning_text"

    def __init__(self, index: int, part: str) -> None:
        super().__init__(index, new_id("rs"), part)

    def part_wire(self) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": self.text}

    def wire(self) -> dict[str, Any]:
        return reasoning_item(self.id, self.text if self._has_part else None, self.status)


class OpenCall(OpenItem):
    """A function call, whose pieces are put together elsewhere."""

    def __init__(self, index: int, parts: CallParts) -> None:
        super().__init__(index, new_id("fc"))
        self._parts = parts
        self._call_id = parts.id or new_id("call")
        self._num_sent = 0

    def wire(self) -> dict[str, Any]:
        arguments = self._parts.arguments[: self._num_sent]
        return call_item(self.id, self._call_id, self._parts.name, arguments, self.status)

    def open(self) -> Events:
        yield self.item_event("added")

    def grow(self) -> Events:
        """The event of what has come since the last one."""
        delta = self._parts.arguments[self._num_sent :]
        if delta:
            self._num_sent += len(delta)
            yield self.event("function_call_arguments.delta", delta=delta)

    def close(self, status: ItemStatus) -> Events:
        if not self._parts.arguments:  # a call without arguments has an empty object of them
            self._parts.arguments = "{}"
            yield from self.grow()
        yield self.event(
            "function_call_arguments.done", name=self._parts.name, arguments=self._parts.arguments
        )
        self.status = status
        yield self.item_event("done")
