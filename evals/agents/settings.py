"""How an agent works: its kind and its limits, and which options its web has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from asymspec_agents.errors import ConfigurationError

__all__ = ["WEB_OPTIONS", "AgentKind", "AgentSettings"]

WEB_OPTIONS = ("cassette", "mode", "online", "search", "search_header", "search_key_file")
"""Where an agent's web comes from: the options of `WebOptions`."""

AgentKind = Literal["tool_calling", "code"]

_KINDS: dict[str, AgentKind] = {"tool_calling": "tool_calling", "code": "code"}
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How an agent works; raises ConfigurationError.

    After `max_steps` the model is asked once more for the answer alone, as smolagents does it.
    `max_step_tokens` is for each of its answers. No call begins when `max_seconds` are over; then there is no
    answer. `forces_calls`: where tools are called, every answer has to be one call (`tool_choice="required"`
    and no parallel calls), on backends that can do so. `max_code_seconds` is for each piece of code.
    `system_prompt` replaces smolagents' own where tools are called, as a template with `tools` in it;
    `instructions` are added to smolagents' own.
    """

    kind: AgentKind = "tool_calling"
    max_steps: int = 8
    max_step_tokens: int = 512
    max_seconds: float = 1_800.0
    forces_calls: bool = False
    max_code_seconds: int = 30
    system_prompt: str | None = None
    instructions: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(AgentKind):
            raise ConfigurationError(f"agent={self.kind!r} must be one of {', '.join(get_args(AgentKind))}")
        for name, most in (("max_steps", 100), ("max_step_tokens", 100_000), ("max_code_seconds", 3_600)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ConfigurationError(f"{name}={value!r} must be an integer from 1 to {most:,}")
        if not 0 < self.max_seconds <= 86_400:
            raise ConfigurationError(f"max_seconds={self.max_seconds!r} must be in (0, 86,400] seconds")

    @classmethod
    def of_texts(
        cls,
        *,
        agent: str,
        max_steps: str,
        max_step_tokens: str,
        max_seconds: str,
        forces_calls: str = "false",
        system_prompt: str | None = None,
        instructions: str | None = None,
    ) -> AgentSettings:
        """Settings as a command line gives them."""
        if agent not in _KINDS:
            raise ConfigurationError(f"agent={agent!r} must be one of {', '.join(_KINDS)}")
        if forces_calls not in ("true", "false"):
            raise ConfigurationError(f"forces_calls={forces_calls!r} must be true or false")
        return cls(
            forces_calls=forces_calls == "true",
            kind=_KINDS[agent],
            max_steps=_number("max_steps", max_steps, int),
            max_step_tokens=_number("max_step_tokens", max_step_tokens, int),
            max_seconds=_number("max_seconds", max_seconds, float),
            system_prompt=system_prompt,
            instructions=instructions,
        )


def _number(name: str, text: str, kind: type[_Number]) -> _Number:
    """The number in a text; raises ConfigurationError naming the option."""
    try:
        return kind(text)
    except ValueError:
        raise ConfigurationError(f"{name}={text!r} must be a number") from None
