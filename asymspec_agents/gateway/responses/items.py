"""The `input` of a Responses body as chat messages.

One answer of the model is several items there (reasoning, a message, calls) and one message here, so items of
the assistant that follow each other are joined again. Their ids are the Responses API's own and are left out;
`call_id` is chat's id of a call, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import MessageError
from .fields import a_list, a_mapping, a_text, refuse
from .parts import chat_content

__all__ = ["chat_messages"]

ROLES = ("user", "system", "developer", "assistant")


def chat_messages(given: object, instructions: object) -> list[dict[str, Any]]:
    """The chat messages of `input` and `instructions`.

    Raises MessageError for what is malformed, UnsupportedRequestError for what is kept or done elsewhere.
    """
    messages = _Messages()
    if instructions is not None:
        if not isinstance(instructions, str):
            raise MessageError("instructions: must be a string")
        messages.add({"role": "system", "content": instructions})
    if isinstance(given, str):
        messages.add({"role": "user", "content": given})
        return messages.whole("input")
    if given is None:
        raise MessageError("input is missing; give a text or a list of items")
    for index, item in enumerate(a_list(given, "input")):
        messages.item(a_mapping(item, f"input[{index}]"), f"input[{index}]")
    return messages.whole("input")


class _Messages:
    """Chat messages under construction; `answer` is the model's message that further items may join."""

    def __init__(self) -> None:
        self._done: list[dict[str, Any]] = []
        self._answer: dict[str, Any] | None = None
        self._calls: set[str] = set()

    def add(self, message: dict[str, Any]) -> None:
        self._answer = None
        self._done.append(message)

    def whole(self, place: str) -> list[dict[str, Any]]:
        if not self._done:
            raise MessageError(f"{place} is empty; at least one item is needed")
        for message in self._done:
            if message.keys() == {"role", "content", "reasoning"} and message["content"] is None:
                raise MessageError(f"{place}: a reasoning item without the message or call that follows it")
        return self._done

    def item(self, item: Mapping[str, Any], place: str) -> None:
        kind = item.get("type", "message" if "role" in item else None)
        if kind == "message":
            self._message(item, place)
        elif kind == "function_call":
            self._call(item, place)
        elif kind == "function_call_output":
            self._output(item, place)
        elif kind == "reasoning":
            self._reasoning(item, place)
        elif kind == "item_reference":
            refuse(f"{place}.type", kind, "nothing is stored here; send the item itself")
        elif isinstance(kind, str):
            refuse(
                f"{place}.type",
                kind,
                "an item of a tool that its provider runs; offer a function tool, which the client runs",
            )
        else:
            raise MessageError(f"{place}.type: must be a string")

    def _message(self, item: Mapping[str, Any], place: str) -> None:
        role, content = item.get("role"), chat_content(item.get("content"), f"{place}.content")
        if role not in ROLES:
            raise MessageError(f"{place}.role: must be one of {', '.join(ROLES)}")
        if role != "assistant":
            self.add({"role": role, "content": content})
            return
        answer = self._answer
        if answer is None or answer["content"] is not None:
            answer = self._new_answer()
        answer["content"] = content

    def _call(self, item: Mapping[str, Any], place: str) -> None:
        identity = a_text(item, "call_id", place)
        function = {"name": a_text(item, "name", place), "arguments": a_text(item, "arguments", place)}
        call = {"id": identity, "type": "function", "function": function}
        answer = self._answer if self._answer is not None else self._new_answer()
        answer.setdefault("tool_calls", []).append(call)
        self._calls.add(identity)

    def _output(self, item: Mapping[str, Any], place: str) -> None:
        identity = a_text(item, "call_id", place)
        if identity not in self._calls:
            raise MessageError(
                f"{place}.call_id: no function_call before it; send the whole conversation, as nothing of it "
                "is stored here"
            )
        content = chat_content(item.get("output"), f"{place}.output")
        self.add({"role": "tool", "tool_call_id": identity, "content": content})

    def _reasoning(self, item: Mapping[str, Any], place: str) -> None:
        """The text of thinking, as a chat server wrote it; a new answer of the model begins with it."""
        texts = [
            a_text(a_mapping(part, f"{place}.{name}[{index}]"), "text", f"{place}.{name}[{index}]")
            for name in ("content", "summary")
            for index, part in enumerate(a_list(item.get(name) or [], f"{place}.{name}"))
        ]
        if not texts and item.get("encrypted_content") is not None:
            refuse(f"{place}.encrypted_content", None, "only its provider can read it; leave the item out")
        if not texts:
            return
        answer = self._answer
        if answer is None or answer["content"] is not None or "tool_calls" in answer:
            answer = self._new_answer()
        answer["reasoning"] = "\n".join(filter(None, (answer.get("reasoning"), *texts)))

    def _new_answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"role": "assistant", "content": None}
        self._done.append(answer)
        self._answer = answer
        return answer
