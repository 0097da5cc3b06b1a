"""ChatAsymSpec: a LangChain chat model over any AsymSpec backend, which gets both views of every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from asymspec_agents.backends import Backend, ChatRequest, new_request_id
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.recording import for_request
from asymspec_agents.router import RoutedContext

from .answer import ChunkMaker, chat_result
from .convert import wire_messages, wire_tools
from .failures import as_langchain_errors
from .request import Call, options_of, parameters_of
from .settings import ModelSettings, Router
from .structured import METHODS, call_parser, json_parser, response_format, schema_name, structured
from .tools import wire_tool_choice

__all__ = ["ChatAsymSpec"]


class ChatAsymSpec(ModelSettings):
    """A chat model whose verifier reads the compressed view and whose drafter reads everything.

    Give a `backend`, or the `base_url` of a server and what belongs to it (`api_key`, by default that of
    ASYMSPEC_API_KEY; `timeout` in seconds; `max_retries`). `router` makes the views (default: a ContextRouter
    within the backend's own limits), `asymspec` says how to decode (AsymSpecOptions or a mapping). `model`
    defaults to the verifier's name. Further fields are parameters of every request; a call's own arguments
    outrank them one by one: `model.bind(asymspec=…)`, `model.invoke(…, max_tokens=…)`. What is not known
    here goes to the server as a field of the request.

    Answers carry the report of decoding in `response_metadata["asymspec"]`. Exceptions are this package's and
    LangChain's at once, see `failures`.

    Invariants: messages are never changed; a failing router never ends a run, the full context is sent then;
    usage is reported once; closing a stream or cancelling a task aborts the request.
    """

    def bind_tools(
        self,
        tools: Sequence[Mapping[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | Mapping[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with these tools. Raises ConfigurationError for a choice that no tool fits.

        `tool_choice`: "any", "required" or True for any tool, a tool's name for that one, "auto", "none", or
        a provider's dict. `parallel_tool_calls` False: one call at most.
        """
        specs = wire_tools(tools, strict=strict)
        bound: dict[str, Any] = {"tools": [spec.wire() for spec in specs], **kwargs}
        choice = wire_tool_choice(tool_choice, specs)
        if choice is not None:
            bound["tool_choice"] = choice
        if parallel_tool_calls is not None:
            bound["parallel_tool_calls"] = parallel_tool_calls
        return self.bind(**bound)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: Literal["function_calling", "json_schema", "json_mode"] = "function_calling",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """The model with answers of this schema: objects of a pydantic class, otherwise dicts.

        The model reads the schema as that of a tool which it must call. By `json_schema` the answer itself
        must be of the schema, but no prompt shows it to the model: say there what is wanted.
        An answer that reached its length limit raises OutputParserException: it is not whole, even where it
        could be completed. `include_raw` gives a dict of `raw`, `parsed` and `parsing_error` instead.
        """
        if method not in METHODS:
            raise ConfigurationError(f"method={method!r} must be one of {', '.join(METHODS)}")
        own = sorted({"tools", "tool_choice", "response_format", "parallel_tool_calls"} & kwargs.keys())
        if own:
            raise ConfigurationError(
                f"{own[0]} cannot be given to with_structured_output, which sets it itself; with further "
                "tools, use bind_tools with the schema among them"
            )
        traced = {"kwargs": {"method": method, "strict": strict}, "schema": schema}
        if method == "function_calling":
            model = self.bind_tools(
                [schema],
                tool_choice=schema_name(schema),
                strict=strict,
                parallel_tool_calls=False,
                ls_structured_output_format=traced,
                **kwargs,
            )
            return structured(model, call_parser(schema), include_raw)
        asked = response_format(schema, method, strict)
        model = self.bind(response_format=asked, ls_structured_output_format=traced, **kwargs)
        return structured(model, json_parser(schema), include_raw)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with as_langchain_errors():
            backend, name, request = self._asked(messages, stop, kwargs)
            response = backend.generate(request)
            self._check_report(response.report)
            return chat_result(response, name)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with as_langchain_errors():
            backend, name, request = await self._aasked(messages, stop, kwargs)
            response = await backend.agenerate(request)
            self._check_report(response.report)
            return chat_result(response, name)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with as_langchain_errors():
            backend, name, request = self._asked(messages, stop, kwargs)
            maker = ChunkMaker(name)
            deltas = backend.stream(request)
            try:
                for delta in deltas:
                    for chunk in maker.chunks(delta):
                        if run_manager is not None:
                            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
            finally:
                if hasattr(deltas, "close"):
                    deltas.close()
            self._check_report(maker.report)
            last = maker.last()
            if run_manager is not None:
                run_manager.on_llm_new_token("", chunk=last)
            yield last

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        with as_langchain_errors():
            backend, name, request = await self._aasked(messages, stop, kwargs)
            maker = ChunkMaker(name)
            deltas = backend.astream(request)
            try:
                async for delta in deltas:
                    for chunk in maker.chunks(delta):
                        if run_manager is not None:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
            finally:
                if hasattr(deltas, "aclose"):
                    await deltas.aclose()
            self._check_report(maker.report)
            last = maker.last()
            if run_manager is not None:
                await run_manager.on_llm_new_token("", chunk=last)
            yield last

    def _asked(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[Backend, str, ChatRequest]:
        backend, name, call = self._begun(messages, stop, kwargs)
        router = self._routing()
        with for_request(call.parameters["request_id"]):
            routed = self._fail_open.guarded(lambda: router.route(call.messages, call.tools))
        return backend, name, call.request(routed)

    async def _aasked(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[Backend, str, ChatRequest]:
        """The same, with nothing in the event loop that computes or waits."""
        backend, name, call = await asyncio.to_thread(self._begun, messages, stop, kwargs)
        router = await asyncio.to_thread(self._routing)
        with for_request(call.parameters["request_id"]):
            routed = await self._fail_open.aguarded(_aroute(router, call))
        return backend, name, await asyncio.to_thread(call.request, routed)

    def _begun(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[Backend, str, Call]:
        called = {**kwargs, "stop": stop} if stop is not None else kwargs
        parameters = parameters_of(self._request_parameters(), called)
        parameters.setdefault("request_id", new_request_id())
        asymspec = called.get("asymspec")
        call = Call(
            messages=wire_messages(messages).messages,
            tools=parameters.pop("tools"),
            options=self.asymspec if asymspec is None else options_of(asymspec),
            parameters=parameters,
        )
        backend, name = self._answering(called.get("model"))
        return backend, name, call


async def _aroute(router: Router, call: Call) -> RoutedContext:
    aroute = getattr(router, "aroute", None)
    if aroute is None:
        return await asyncio.to_thread(router.route, call.messages, call.tools)
    routed: RoutedContext = await aroute(call.messages, call.tools)
    return routed
