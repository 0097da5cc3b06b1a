"""Routing that never ends a run: where a router fails, both views are the full one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from asymspec_agents.fail_open import FailOpen
from asymspec_agents.messages import Message
from asymspec_agents.recording import Recorder
from asymspec_agents.router import RoutedContext, ToolDoc
from asymspec_agents.views import RateState

from ._compat import agent_tools
from .tool_docs import docs_in_system_prompts, docs_of_tools

__all__ = ["FailOpenRouter", "Router"]


class Router(Protocol):
    """What is needed of a ContextRouter."""

    def route(
        self,
        messages: Sequence[Message | Mapping[str, object]],
        tools: Sequence[Any] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
    ) -> RoutedContext: ...


class FailOpenRouter(FailOpen):
    """Calls a router with the tool documentation that is known, and stands in for it when it fails.

    Documentation comes from the call's tools, from the agents that were instrumented, and from the system
    prompts themselves; all three depend on the call and on set-up only, never on earlier calls.
    """

    def __init__(self, router: Router, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.router = router
        self._agents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._agents_lock = threading.Lock()

    def know_agent(self, agent: Any) -> None:
        """The agent's tools and managed agents are known from now on, also where a call passes none."""
        with self._agents_lock:
            self._agents.add(agent)

    def route(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        called_with: Sequence[Any],
        rate: RateState | None = None,
    ) -> RoutedContext | None:
        """Both views, or None where the router failed and the full view has to serve as both.

        Raises ContextOverflowError; see FailOpen.
        """
        route: Callable[..., RoutedContext] = self.router.route
        adapted = {} if rate is None else {"rate": rate}  # a router need not know of rates
        return self.guarded(
            lambda: route(messages, tools, tool_docs=self._docs(messages, called_with), **adapted)
        )

    def _docs(self, messages: Sequence[Message], called_with: Sequence[Any]) -> tuple[ToolDoc, ...]:
        with self._agents_lock:
            known = [tool for agent in self._agents for tool in agent_tools(agent)]
        docs = (*docs_of_tools([*called_with, *known]), *docs_in_system_prompts(messages))
        return tuple(sorted({doc.text: doc for doc in reversed(docs)}.values(), key=lambda doc: doc.text))
