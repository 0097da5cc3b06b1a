"""The model of an episode: AsymSpecModel with the task's files, a deadline, and a memory for failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smolagents.models import ChatMessage, MessageRole

from asymspec_agents.errors import AsymSpecError
from smolagents_asymspec import AsymSpecModel

__all__ = ["EpisodeModel", "OutOfTimeError"]


class OutOfTimeError(AsymSpecError):
    """An episode's time is up."""


class EpisodeModel(AsymSpecModel):
    """An AsymSpecModel for one episode.

    `files` follow the task in every call, so that the router makes both their views. No call begins after
    `deadline_s` (on `clock`). `failure` is the first exception of a call: agents wrap them, or, for their
    last words, write them into the answer.
    """

    def __init__(
        self,
        *given: Any,
        files: Sequence[Mapping[str, Any]] = (),
        deadline_s: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self._files = tuple(files)
        self._deadline_s = deadline_s
        self._clock = clock
        self.failure: Exception | None = None
        self.num_calls = 0

    def generate(
        self, messages: Sequence[ChatMessage | Mapping[str, Any]], *given: Any, **options: Any
    ) -> ChatMessage:
        try:
            if self._clock() >= self._deadline_s:
                raise OutOfTimeError("the episode's time is up")
            self.num_calls += 1
            return super().generate(self._with_files(messages), *given, **options)
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _with_files(
        self, messages: Sequence[ChatMessage | Mapping[str, Any]]
    ) -> Sequence[ChatMessage | Mapping[str, Any]]:
        """The messages, with the files behind the first one of the user's."""
        if not self._files:
            return messages
        shown = list(messages)
        for index, message in enumerate(shown):
            role, content = _fields(message)
            if role == MessageRole.USER:
                texts = (
                    [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
                )
                shown[index] = ChatMessage(role=MessageRole.USER, content=[*texts, *self._files])
                break
        return shown


def _fields(message: ChatMessage | Mapping[str, Any]) -> tuple[Any, Any]:
    if isinstance(message, Mapping):
        return message.get("role"), message.get("content")
    return message.role, message.content
