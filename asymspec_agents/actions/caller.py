"""Asks a model for its next action: both views to a backend, the answer read and checked, one more try."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..backends.answer import ChatResponse
from ..backends.base import Backend
from ..backends.request import ChatRequest, new_request_id
from ..compress.tool_docs import signature_schema
from ..errors import ActionError, ConfigurationError
from ..messages import Message, ToolSpec, parse_tools
from ..protocol import AsymSpecOptions
from ..recording import for_request
from ..router import ContextRouter
from ..views.routed import RoutedContext
from ..views.tool_view import ToolDoc
from .action import Action
from .reading import FORM, actions_in
from .results import error_message
from .schema import tool_schemas
from .tool import tool_spec

__all__ = ["ActionCaller", "Step"]

AnyMessage = Message | Mapping[str, Any]
OnProse = Literal["retry", "answer"]
_ENDS = ("stop", "tool_calls", "function_call")  # of its own accord; for any other reason it was cut off
_OWN_FIELDS = {"messages", "tools", "asymspec", "request_id", "tool_choice", "parallel_tool_calls"}


@dataclass(frozen=True, slots=True)
class Step:
    """What the model did: its actions, and the messages that take them into the history.

    `text` is the last answer, untouched; `messages` are every answer of this step and every error shown to
    the model. `responses` and `routed` are the answers and the views of each try.
    """

    actions: tuple[Action, ...]
    text: str
    messages: tuple[dict[str, Any], ...]
    responses: tuple[ChatResponse, ...]
    routed: tuple[RoutedContext, ...]

    @property
    def action(self) -> Action:
        """The first action. Raises ActionError where the model answered in prose."""
        if not self.actions:
            raise ActionError("the answer is prose, without an action", self.text)
        return self.actions[0]


class ActionCaller:
    """Asks for actions of the given tools (functions, or tools in OpenAI's form).

    `on_prose`: whether an answer without any action is tried again or taken as the agent's last word.
    `fields` are further fields of each ChatRequest, such as `max_tokens` and `stop`. Needs the extra `json`.
    Raises ConfigurationError for tools that have no schema and for unknown fields.
    """

    def __init__(
        self,
        backend: Backend,
        tools: Sequence[Callable[..., Any] | ToolSpec | Mapping[str, Any]],
        *,
        router: ContextRouter | None = None,
        options: AsymSpecOptions | None = None,
        on_prose: OnProse = "retry",
        **fields: Any,
    ) -> None:
        if on_prose not in ("retry", "answer"):
            raise ConfigurationError(f"on_prose={on_prose!r} must be 'retry' or 'answer'")
        _check_fields(fields)
        self.tools = tuple(_spec(tool) for tool in tools)
        self._schemas = tool_schemas(self.tools)
        self._backend = backend
        self._router = router if router is not None else ContextRouter()
        self._options = options
        self._on_prose = on_prose
        self._fields = fields
        self._docs = tuple(ToolDoc(_doc(tool), _doc(signature_schema(tool))) for tool in self.tools)

    @property
    def instructions(self) -> str:
        """What a system prompt has to say: the tools and the form of an action."""
        return "\n".join(
            (
                f"To act, answer with one JSON object and nothing else: {FORM}. The tools are:",
                *(doc.text for doc in self._docs),
            )
        )

    def start(self, task: str) -> list[dict[str, Any]]:
        """A history that begins with the instructions and the task."""
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": task}]

    def call(self, messages: Sequence[AnyMessage]) -> Step:
        """The model's next step. Raises ActionError where its second try has no valid action either.

        Raises what the router and the backend raise.
        """
        tries = _Tries(self, messages)
        while True:
            request_id = new_request_id()
            with for_request(request_id):
                routed = self._router.route(tries.history, tool_docs=self._docs)
            step = tries.take(routed, self._backend.generate(self._request(routed, request_id)))
            if step is not None:
                return step

    async def acall(self, messages: Sequence[AnyMessage]) -> Step:
        """The same as `call`, awaited."""
        tries = _Tries(self, messages)
        while True:
            request_id = new_request_id()
            with for_request(request_id):
                routed = await self._router.aroute(tries.history, tool_docs=self._docs)
            step = tries.take(routed, await self._backend.agenerate(self._request(routed, request_id)))
            if step is not None:
                return step

    def _request(self, routed: RoutedContext, request_id: str) -> ChatRequest:
        asymspec = routed.request(self._options)
        return ChatRequest(messages=routed.full, asymspec=asymspec, request_id=request_id, **self._fields)

    def read(self, response: ChatResponse, text: str) -> tuple[Action, ...]:
        """The actions of an answer; none where it is prose and may be. Raises ActionError."""
        try:
            return actions_in(text, self._schemas, is_cut=response.finish_reason not in _ENDS)
        except ActionError:
            if self._on_prose == "answer" and text.strip() and "{" not in text:
                return ()
            raise


class _Tries:
    """The tries of one step."""

    def __init__(self, caller: ActionCaller, messages: Sequence[AnyMessage]) -> None:
        self._caller = caller
        self._given = list(messages)
        self._new: list[dict[str, Any]] = []
        self._responses: list[ChatResponse] = []
        self._routed: list[RoutedContext] = []

    @property
    def history(self) -> list[AnyMessage]:
        return [*self._given, *self._new]

    def take(self, routed: RoutedContext, response: ChatResponse) -> Step | None:
        """The step this answer makes; None where the model is to try again."""
        self._routed.append(routed)
        self._responses.append(response)
        text = _text(response)
        self._new.append({"role": "assistant", "content": text})
        try:
            actions = self._caller.read(response, text)
        except ActionError as error:
            self._new.append(error_message(str(error)))
            if len(self._responses) > 1:
                raise ActionError(str(error), text, tuple(self._new)) from error
            return None
        return Step(actions, text, tuple(self._new), tuple(self._responses), tuple(self._routed))


def _text(response: ChatResponse) -> str:
    """The answer's text; a server that took calls out of it has them written back."""
    calls = [
        {"name": call.function.name, "arguments": call.function.arguments}
        for call in response.tool_calls
        if call.function is not None
    ]
    if not calls:
        return response.content
    written = json.dumps(calls if len(calls) > 1 else calls[0], ensure_ascii=False)
    return f"{response.content}\n{written}" if response.content else written


def _spec(tool: Callable[..., Any] | ToolSpec | Mapping[str, Any]) -> ToolSpec:
    if isinstance(tool, ToolSpec | Mapping):
        return parse_tools([tool])[0]
    return tool_spec(tool)


def _doc(tool: ToolSpec) -> str:
    function = tool.function
    return json.dumps(function.wire() if function is not None else {}, ensure_ascii=False)


def _check_fields(given: Mapping[str, Any]) -> None:
    known = {field.name for field in fields(ChatRequest)} - _OWN_FIELDS
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ConfigurationError(f"{unknown[0]}: no field of a call; those are {', '.join(sorted(known))}")
