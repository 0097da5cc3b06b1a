"""instrument(): tells a model the tools of its agent, and keeps the outputs of parallel calls apart."""

from __future__ import annotations

from typing import Any, TypeVar

from asymspec_agents.errors import ConfigurationError

from ._compat import join_tool_outputs, managed_agents, set_model
from .model import AsymSpecModel
from .outputs import join_outputs
from .routed import RoutedModel
from .routing import Router

__all__ = ["instrument"]

_Agent = TypeVar("_Agent")


def instrument(agent: _Agent, router: Router | None = None) -> _Agent:
    """The same agent, and the agents it manages, set up for routing; doing it twice changes nothing.

    Not needed for routing as such. It adds: tool documentation in prompt templates of the user's own is known
    and replaced by signatures; the outputs of parallel calls get a heading each, so that models can tell them
    apart and each is compressed by itself. With a `router`, models that do not route yet are wrapped.
    Raises ConfigurationError for a model that does not route where no router is given.
    """
    _instrument(agent, router)
    return agent


def _instrument(agent: Any, router: Router | None) -> None:
    if not isinstance(agent.model, AsymSpecModel | RoutedModel):
        if router is None:
            raise ConfigurationError(
                f"model={type(agent.model).__name__} does not route; give instrument a router, or the agent "
                "an AsymSpecModel or RoutedModel"
            )
        set_model(agent, RoutedModel(agent.model, router))
    agent.model.routing.know_agent(agent)
    join_tool_outputs(agent, join_outputs)
    for managed in managed_agents(agent):
        _instrument(managed, router)
