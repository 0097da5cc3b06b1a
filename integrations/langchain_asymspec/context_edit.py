"""AsymSpecContextEdit: the compressed view as an edit of LangChain's own ContextEditingMiddleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.fail_open import FailOpen
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.router import ContextRouter

from .compressed import compressed_messages
from .convert import wire_messages
from .failures import as_langchain_errors
from .settings import Router

__all__ = ["AsymSpecContextEdit"]


class AsymSpecContextEdit:
    """Replaces long texts by renditions, where ClearToolUsesEdit leaves a placeholder.

    It edits what one call sends, never the agent's state. `trigger`: tokens, by the middleware's own counter,
    up to which nothing is edited. The middleware hands an edit the messages without system prompt and tools:
    a budget of the router's policy has to leave room for them. For a model that takes the compressed view
    alone: before a ChatAsymSpec it would take the full view from the drafter.

    Raises LangChain's ContextOverflowError where the router's limits cannot be met; a router that fails
    leaves the messages as they are.
    """

    def __init__(
        self,
        router: Router | None = None,
        *,
        trigger: int = 0,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        if not isinstance(trigger, int) or isinstance(trigger, bool) or trigger < 0:
            raise ConfigurationError(f"trigger={trigger!r}: must be an integer of at least 0")
        if router is not None and not callable(getattr(router, "route", None)):
            raise ConfigurationError(f"router must be a ContextRouter, not {type(router).__name__}")
        self.trigger = trigger
        self.router: Router = router if router is not None else ContextRouter(recorder=recorder)
        self._fail_open = FailOpen(recorder)

    def apply(self, messages: list[Any], *, count_tokens: Callable[[Sequence[BaseMessage]], int]) -> None:
        """Edits the list in place: messages with long texts are replaced by copies with renditions."""
        if self.trigger and count_tokens(messages) <= self.trigger:
            return
        with as_langchain_errors():
            edited = self._fail_open.guarded(lambda: self._edited(messages))
        if edited is not None:
            messages[:] = edited

    def _edited(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        wire = wire_messages(messages)
        bare = wire.without_data()
        return compressed_messages(wire, bare, self.router.route(bare))
