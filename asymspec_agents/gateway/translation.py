"""What another API than chat completions is to the gateway: a translation there and back, per call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

__all__ = ["Translate", "Translation"]


class Translation(Protocol):
    """One call of another API as a chat completion.

    `chat_body` is the chat completion to forward. Error answers are not translated: both APIs share OpenAI's
    error object.
    """

    @property
    def chat_body(self) -> Mapping[str, Any]: ...

    def answer(self, content: bytes) -> bytes:
        """A whole chat completion as the other API's answer, both as JSON."""

    def events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The other API's stream; each of `chunks` is one or more whole events of the chat stream.

        A failure comes as an event with OpenAI's error object before the stream's end.
        """


Translate = Callable[[dict[str, Any]], Translation]
"""Makes a body of the other API a Translation; raises ConfigurationError or MessageError for a refusal."""
