"""AsymSpecContextMiddleware: both views for a LangChain agent's model, without touching the agent's state.

Put it last in `middleware`: the last one is the innermost, so the full view is what the others left, and
tools' results are kept as the tools gave them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.runnables import RunnableBinding

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.fail_open import FailOpen
from asymspec_agents.messages import ToolSpec
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.router import ContextRouter
from asymspec_agents.store import ContentStore, MemoryStore

from ._compat_agents import (
    AgentMiddleware,
    AutoStrategy,
    Command,
    ModelRequest,
    ProviderStrategy,
    ToolStrategy,
)
from .blocks import placed_parts
from .compressed import compressed_messages, signature_tools
from .convert import wire_messages, wire_tools
from .failures import as_langchain_errors
from .settings import Router

__all__ = ["AsymSpecContextMiddleware", "OnOtherModel"]

OnOtherModel = Literal["error", "compress", "leave"]


class AsymSpecContextMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent's model both views of every call, or the compressed one.

    ChatAsymSpec sends both views: its verifier reads the compressed one, its drafter everything. It keeps the
    router it has unless `router` is given here. Any other model takes one view only; `on_other_model` says
    what happens then: `error` raises ConfigurationError, `compress` sends the compressed view (texts and
    tools' documentation; images and files as they are), `leave` changes nothing.

    `store` has every text that a tool gave, by its content hash: the router's own store, or one in memory.

    Invariants: the agent's state, its checkpoints and its tools are never changed; the compressed view has
    the same messages in the same order, ids, calls, artifacts and all, unless the router summarizes; a router
    that fails never ends a run, the full context is sent then.
    Raises LangChain's ContextOverflowError where the router's limits cannot be met.
    """

    def __init__(
        self,
        router: Router | None = None,
        *,
        on_other_model: OnOtherModel = "error",
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        super().__init__()
        if router is not None and not callable(getattr(router, "route", None)):
            raise ConfigurationError(f"router must be a ContextRouter, not {type(router).__name__}")
        if on_other_model not in get_args(OnOtherModel):
            options = ", ".join(map(repr, get_args(OnOtherModel)))
            raise ConfigurationError(f"on_other_model={on_other_model!r}: must be one of {options}")
        self.tools = ()
        store: ContentStore | None = getattr(router, "store", None)
        self.store = store if store is not None else MemoryStore()
        self._given = router
        self._router = router if router is not None else ContextRouter(store=self.store, recorder=recorder)
        self._on_other_model = on_other_model
        self._recorder = recorder
        self._fail_open = FailOpen(recorder)
        self._routed_model: tuple[Any, Any] | None = None

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """The handler's answer to the request with both views, or with the compressed one."""
        return handler(self._routed(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The same, with the router's work off the event loop."""
        return await handler(await asyncio.to_thread(self._routed, request))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The handler's result, whose texts are now in `store`."""
        result = handler(request)
        self._keep(result)
        return result

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same, with the store's work off the event loop."""
        result = await handler(request)
        await asyncio.to_thread(self._keep, result)
        return result

    def _routed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        with as_langchain_errors():
            if _takes_both_views(request.model):
                if self._given is None:
                    return request
                return request.override(model=self._both_views(request.model, self._given))
            if self._on_other_model == "leave":
                return request
            if self._on_other_model == "error":
                raise ConfigurationError(
                    f"on_other_model='error': {type(request.model).__name__} takes one view only. Use "
                    "ChatAsymSpec, or pass on_other_model='compress' to send the compressed view, 'leave' to "
                    "change nothing"
                )
            return self._fail_open.guarded(lambda: self._compressed(request)) or request

    def _both_views(self, model: Any, router: Router) -> Any:
        """The model with this router: the same object for every call with the same model."""
        made = self._routed_model
        if made is None or made[0] is not model:
            self._routed_model = made = (model, _with_router(model, router))
        return made[1]

    def _compressed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        system = [request.system_message] if request.system_message is not None else []
        wire = wire_messages([*system, *request.messages])
        bare, tools = wire.without_data(), wire_tools(request.tools)
        routed = self._router.route(bare, (*tools, *_answer_schemas(request.response_format)))
        shown = compressed_messages(wire, bare, routed)
        num_tools = len(tools)
        return request.override(
            system_message=cast(SystemMessage, shown[0]) if system else None,
            messages=cast(list[Any], shown[len(system) :]),
            tools=signature_tools(request.tools, tools, routed.compressed_tools[:num_tools]),
        )

    def _keep(self, result: Any) -> None:
        try:
            for message in _tool_messages(result):
                for placed in placed_parts(message.content, "content"):
                    if placed.part.type == "text" and placed.part.text:
                        self.store.put(placed.part.text)
        except Exception as error:  # a full disk costs the original, not the run
            self._recorder.record("store_failed", error=type(error).__name__)


def _takes_both_views(model: Any) -> bool:
    inner = model.bound if isinstance(model, RunnableBinding) else model
    return hasattr(inner, "with_router")


def _with_router(model: Any, router: Router) -> Any:
    """The model with another router; what was bound to it stays bound."""
    if isinstance(model, RunnableBinding):
        return model.model_copy(update={"bound": _with_router(model.bound, router)})
    return model.with_router(router)


def _answer_schemas(response_format: Any) -> tuple[ToolSpec, ...]:
    """The schemas that an agent adds to a model's tools for a structured answer; they are only counted."""
    if response_format is None or isinstance(response_format, ProviderStrategy):
        return ()
    if not isinstance(response_format, ToolStrategy):  # whichever strategy is chosen then, this is the larger
        is_strategy = isinstance(response_format, AutoStrategy)
        response_format = ToolStrategy(response_format.schema if is_strategy else response_format)
    return tuple(
        ToolSpec.model_validate({"type": "answer_schema", "schema": [spec.description, spec.json_schema]})
        for spec in response_format.schema_specs
    )


def _tool_messages(result: Any) -> Iterator[ToolMessage]:
    if isinstance(result, ToolMessage):
        yield result
    elif isinstance(result, Command):
        if isinstance(result.update, Mapping):
            yield from _tool_messages(list(result.update.values()))
    elif isinstance(result, Sequence) and not isinstance(result, str):
        for item in result:
            yield from _tool_messages(item)
