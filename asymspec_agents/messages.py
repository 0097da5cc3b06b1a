"""Chat messages and tools in OpenAI's chat wire format, with every unknown field kept.

Source of the format: OpenAI API reference, `POST /v1/chat/completions`.

Invariants:
- `parse_messages(x)[i].wire() == x[i]` for every accepted input, unknown fields included.
- Text is any Python string: lone surrogates (which JSON's \\ud800 escapes produce) are accepted and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from .errors import MessageError

__all__ = [
    "ContentPart",
    "FunctionCall",
    "FunctionSpec",
    "Message",
    "Text",
    "ToolCall",
    "ToolSpec",
    "check_conversation",
    "deepest",
    "index_path",
    "parse_messages",
    "parse_tools",
]


def _any_str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {type(value).__name__}")
    return value


# pydantic's own str refuses lone surrogates, which tool outputs do contain.
Text = Annotated[str, PlainValidator(_any_str), WithJsonSchema({"type": "string"})]


class _Wire(BaseModel):
    """Base of the wire models: frozen, unknown fields kept, dumped as given."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def wire(self) -> dict[str, Any]:
        """This object as it stands on the wire: the fields that were given, no others."""
        return self.model_dump(exclude_unset=True)


class ContentPart(_Wire):
    """One part of a message's content: `text`, or any other kind (`image_url`, `file`, …) kept as it is."""

    type: Text
    text: Text | None = None


class FunctionCall(_Wire):
    """The function a tool call names; `arguments` is normally a JSON string and is never rewritten."""

    name: Text
    arguments: Any = None


class ToolCall(_Wire):
    """One tool call of an assistant message."""

    id: Text | None = None
    type: Text | None = None
    function: FunctionCall | None = None


class Message(_Wire):
    """One chat message; `content` is a string, a list of parts, or absent."""

    role: Text
    content: Text | tuple[ContentPart, ...] | None = None
    name: Text | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: Text | None = None

    def wire(self) -> dict[str, Any]:
        """This message as it stands on the wire (lists where the wire has lists)."""
        data = super().wire()
        for key in ("content", "tool_calls"):
            if isinstance(data.get(key), tuple):
                data[key] = list(data[key])
        return data

    def texts(self) -> tuple[str, ...]:
        """The text of every text part, in order (one for string content, none for absent content)."""
        if self.content is None:
            return ()
        if isinstance(self.content, str):
            return (self.content,)
        return tuple(part.text for part in self.content if part.text is not None)


class FunctionSpec(_Wire):
    """A function a model may call: name, description and JSON schema of its parameters."""

    name: Text
    description: Text | None = None
    parameters: Mapping[str, Any] | None = None


class ToolSpec(_Wire):
    """A tool offered to the model; only `type: "function"` carries a `function`."""

    type: Text = "function"
    function: FunctionSpec | None = None


_M = TypeVar("_M", bound=_Wire)


def _parse(kind: type[_M], what: str, items: Iterable[_M | Mapping[str, Any]]) -> tuple[_M, ...]:
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise MessageError(f"{what} must be a list, not {type(items).__name__}")
    parsed = []
    for index, item in enumerate(items):
        if isinstance(item, kind):
            parsed.append(item)
            continue
        try:
            parsed.append(kind.model_validate(item))
        except ValidationError as error:
            problem = deepest(error)
            raise MessageError(f"{what}[{index}]{index_path(problem['loc'])}: {problem['msg']}") from error
    return tuple(parsed)


def deepest(error: ValidationError) -> ErrorDetails:
    """The most precise problem: of a union's branches, that of the one that got furthest."""
    problem = max(error.errors(include_url=False), key=lambda details: len(details["loc"]))
    problem["msg"] = problem["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    return problem


def index_path(location: tuple[int | str, ...]) -> str:
    """pydantic's error location as an index path, without the names of union branches."""
    steps = (step for step in location if isinstance(step, int) or "[" not in step)
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def parse_messages(messages: Sequence[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages as objects; objects pass through untouched. Raises MessageError naming the place."""
    return _parse(Message, "messages", messages)


def parse_tools(tools: Sequence[ToolSpec | Mapping[str, Any]] | None) -> tuple[ToolSpec, ...]:
    """The tools as objects, empty for None. Raises MessageError naming the place."""
    return _parse(ToolSpec, "tools", tools or ())


ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def check_conversation(messages: Sequence[Message], what: str = "messages") -> None:
    """Raises MessageError, naming the place, for a list that is no conversation a chat model can answer.

    That is: an empty list, an unknown role, a message or text part without content, a tool's result that
    belongs to no call before it or is the second to one. `what` names the list in the error.
    """
    if not messages:
        raise MessageError(f"{what} is empty; at least one message is needed")
    open_calls: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        place = f"{what}[{index}]"
        if message.role not in ROLES:
            raise MessageError(f"{place}.role is none of {', '.join(ROLES)}")
        _check_content(message, place)
        for call in message.tool_calls or ():
            if call.id is not None:
                open_calls.add(call.id)
                answered.discard(call.id)  # some servers number calls anew in every answer
        if message.role == "tool":
            identity = message.tool_call_id
            if identity is None:
                raise MessageError(
                    f"{place}.tool_call_id is missing; it names the call this is the result of"
                )
            if identity in answered:
                raise MessageError(f"{place}.tool_call_id: that call has its result already")
            if identity not in open_calls:
                raise MessageError(f"{place}.tool_call_id: no assistant message before it made that call")
            answered.add(identity)


def _check_content(message: Message, place: str) -> None:
    if message.content is None:
        speaks = message.role == "assistant" and (message.tool_calls or message.model_extra)
        if not speaks:
            raise MessageError(f"{place}.content is missing; give a text or a list of parts")
    elif not isinstance(message.content, str):
        for number, part in enumerate(message.content):
            if part.type == "text" and part.text is None:
                raise MessageError(f"{place}.content[{number}].text is missing")
    for number, call in enumerate(message.tool_calls or ()):
        if call.function is None and call.type in (None, "function"):
            raise MessageError(f"{place}.tool_calls[{number}].function is missing")
