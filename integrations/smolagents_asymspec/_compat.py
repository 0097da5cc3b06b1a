"""The only module that touches what may change between smolagents versions.

Everything else of this package imports smolagents' names from here. Written against smolagents 1.26.0.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = [
    "REMOVE_PARAMETER",
    "ChatMessage",
    "ChatMessageStreamDelta",
    "ChatMessageToolCall",
    "ChatMessageToolCallFunction",
    "ChatMessageToolCallStreamDelta",
    "MessageRole",
    "Model",
    "OpenAIModel",
    "TokenUsage",
    "agent_tools",
    "call_prompt",
    "check_version",
    "code_prompt",
    "join_tool_outputs",
    "managed_agents",
    "model_class",
    "openai_messages",
    "register_model",
    "set_model",
    "tool_schema",
    "with_client",
]

_NEEDED = ">=1.26,<2"


def check_version(version: str) -> None:
    """Raises ConfigurationError unless this smolagents version is one the package was written for."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or not (1, 26) <= (int(match[1]), int(match[2])) < (2, 0):
        raise ConfigurationError(f"smolagents={version!r} is not supported; needed: smolagents{_NEEDED}")


try:
    import smolagents
except ModuleNotFoundError as error:
    if error.name != "smolagents":
        raise
    raise MissingDependencyError("smolagents", "smolagents") from error

check_version(smolagents.__version__)

from smolagents.models import (  # noqa: E402 - the version fits
    MODEL_REGISTRY,
    REMOVE_PARAMETER,
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
    OpenAIModel,
    get_tool_json_schema,
)
from smolagents.monitoring import TokenUsage  # noqa: E402


def register_model(cls: type[Model]) -> None:
    """Makes `Agent.from_dict` and `Agent.from_folder` find a model class by its name."""
    MODEL_REGISTRY[cls.__name__] = cls


def model_class(name: str) -> type[Model] | None:
    """The registered model class of this name, or None."""
    found: type[Model] | None = MODEL_REGISTRY.get(name)
    return found


def tool_schema(tool: Any) -> dict[str, Any]:
    """The full OpenAI schema of a tool or managed agent; what is a schema already stays as it is."""
    if isinstance(tool, Mapping):
        return dict(tool)
    return dict(get_tool_json_schema(tool))


def agent_tools(agent: Any) -> list[Any]:
    """The tools and managed agents an agent can call."""
    return [*agent.tools.values(), *managed_agents(agent)]


def managed_agents(agent: Any) -> list[Any]:
    """The agents an agent manages."""
    return list(agent.managed_agents.values())


def openai_messages(model: OpenAIModel, messages: Sequence[Any], called: Mapping[str, Any]) -> list[Any]:
    """The messages as this model sends them in a call with these keywords: cleaned, merged, encoded."""
    prepared = model._prepare_completion_kwargs(
        messages=list(messages),
        custom_role_conversions=model.custom_role_conversions,
        convert_images_to_image_urls=True,
        **called,
    )
    return list(prepared["messages"])


def with_client(model: OpenAIModel, client: Any) -> OpenAIModel:
    """A copy of the model that differs in its client only, of which it calls `chat.completions.create`."""
    other = copy.copy(model)
    other.client = client
    return other


def call_prompt(tool: Any) -> str:
    """The documentation which the tool-calling templates write for a tool or managed agent."""
    if hasattr(tool, "to_tool_calling_prompt"):
        return str(tool.to_tool_calling_prompt())
    return (
        f"{tool.name}: {tool.description}\n  - Takes inputs: {tool.inputs}\n"
        f"  - Returns an output of type: {tool.output_type}"
    )


def code_prompt(tool: Any) -> str:
    """The documentation which the code templates write for a tool or managed agent."""
    if hasattr(tool, "to_code_prompt"):
        return str(tool.to_code_prompt())
    return (
        f"def {tool.name}(task: str, additional_args: dict[str, Any]) -> str:\n"
        f'    """{tool.description}\n\n    Args:\n'
        f"        task: {tool.inputs['task']['description']}\n"
        f"        additional_args: {tool.inputs['additional_args']['description']}\n"
        '    """'
    )


def set_model(agent: Any, model: Model) -> None:
    """Gives an agent another model, also in its monitor."""
    agent.model = model
    agent.monitor.tracked_model = model


def join_tool_outputs(agent: Any, join: Callable[[Sequence[Any]], str | None]) -> None:
    """Lets `join` write the observation text of each step whose tool outputs it wants to join itself.

    `join` gets the step's ToolOutputs in smolagents' order (sorted by call id); None leaves smolagents' text.
    Only agents that make tool calls have such steps.
    """
    if not hasattr(agent, "process_tool_calls"):
        return

    def process_tool_calls(self: Any, chat_message: Any, memory_step: Any) -> Iterator[Any]:
        outputs = {}
        for event in type(self).process_tool_calls(self, chat_message, memory_step):
            if hasattr(event, "observation"):
                outputs[event.id] = event
            yield event
        text = join([outputs[key] for key in sorted(outputs)])
        if text is not None:
            memory_step.observations = text

    # A bound method, so that a deep copy of the agent has one of its own.
    agent.process_tool_calls = MethodType(process_tool_calls, agent)
