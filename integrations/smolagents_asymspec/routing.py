"""Routing that never ends a run: where a router fails, both views are the full one."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.messages import Message
from asymspec_agents.recording import Recorder
from asymspec_agents.router import RoutedContext, ToolDoc
from asymspec_agents.views import RateState

from ._compat import agent_tools
from .tool_docs import docs_in_system_prompts, docs_of_tools

__all__ = ["FailOpenRouter", "Router"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Router(Protocol):
    """What is needed of a ContextRouter."""

    def route(
        self,
        messages: Sequence[Message | Mapping[str, object]],
        tools: Sequence[Any] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
    ) -> RoutedContext: ...


class FailOpenRouter:
    """Calls a router with the tool documentation that is known, and stands in for it when it fails.

    Documentation comes from the call's tools, from the agents that were instrumented, and from the system
    prompts themselves; all three depend on the call and on set-up only, never on earlier calls.
    """

    def __init__(self, router: Router, recorder: Recorder) -> None:
        self.router = router
        self._recorder = recorder
        self._agents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._reported: set[str] = set()
        self._lock = threading.Lock()

    def know_agent(self, agent: Any) -> None:
        """The agent's tools and managed agents are known from now on, also where a call passes none."""
        with self._lock:
            self._agents.add(agent)

    def route(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        called_with: Sequence[Any],
        rate: RateState | None = None,
    ) -> RoutedContext | None:
        """Both views, or None where the router failed and the full view has to serve as both.

        A ContextOverflowError is no failure but the router's answer, and is raised: the full view is longer
        still. A failure is recorded each time and logged once per kind.
        """
        route: Callable[..., RoutedContext] = self.router.route
        adapted = {} if rate is None else {"rate": rate}  # a router need not know of rates
        return self.guarded(
            lambda: route(messages, tools, tool_docs=self._docs(messages, called_with), **adapted)
        )

    def guarded(self, work: Callable[[], _T]) -> _T | None:
        """What the work gives, or None where it failed; see `route`."""
        try:
            return work()
        except ContextOverflowError:
            raise
        except Exception as error:
            self._report(error)
            return None

    def _docs(self, messages: Sequence[Message], called_with: Sequence[Any]) -> tuple[ToolDoc, ...]:
        with self._lock:
            known = [tool for agent in self._agents for tool in agent_tools(agent)]
        docs = (*docs_of_tools([*called_with, *known]), *docs_in_system_prompts(messages))
        return tuple(sorted({doc.text: doc for doc in reversed(docs)}.values(), key=lambda doc: doc.text))

    def _report(self, error: Exception) -> None:
        kind = type(error).__name__
        self._recorder.record("route_failed", error=kind)  # the message may quote contents
        with self._lock:
            is_new = kind not in self._reported
            self._reported.add(kind)
        if is_new:
            logger.warning(
                "routing failed with %s; the full context is sent as both views (logged once)",
                kind,
                exc_info=logger.isEnabledFor(logging.DEBUG),
            )
