"""What a suite asks: samples, in the full view, and which of their parts a compressed view may shorten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asymspec_agents.messages import Message, ToolSpec, parse_messages, parse_tools

__all__ = ["LongPart", "Sample"]


@dataclass(frozen=True, slots=True)
class LongPart:
    """A text that a compressed view may shorten: `part` is None where the message's content is a string.

    `text` is given for a part that has none, such as an image: it is what a compressed view shows there,
    shortened like any other text, and what the full view shows to a model that does not see. Only the view
    `none` shows the part itself, to a model that sees.
    """

    message: int
    part: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question.

    `messages` and `tools` are the full view (wire dicts are parsed). `query` is what renditions are made for.
    `gold` and `details` are what the suite's scorer needs, as plain JSON. `groups` are what results are also
    given by, such as {"level": "1"}. `files` are attachments of an agent's task.
    """

    suite: str
    id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    query: str = ""
    long_parts: tuple[LongPart, ...] = ()
    gold: Any = None
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", parse_messages(self.messages))
        object.__setattr__(self, "tools", parse_tools(self.tools))
