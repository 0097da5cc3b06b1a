"""A suite's options: texts of the command line as checked values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from asymspec_agents.errors import ConfigurationError

__all__ = ["AGENT_OPTIONS", "check_known", "flag", "with_agent_options"]

AGENT_OPTIONS = ("agent", "max_seconds", "max_step_tokens", "max_steps")
_FIELDS: dict[str, tuple[str, type]] = {
    "agent": ("kind", str),
    "max_seconds": ("max_seconds", float),
    "max_step_tokens": ("max_step_tokens", int),
    "max_steps": ("max_steps", int),
}


def check_known(suite: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises ConfigurationError naming an option that the suite does not have."""
    for name in options:
        if name not in known:
            raise ConfigurationError(
                f"option {name!r} is unknown to suite {suite}; its options: {', '.join(sorted(known))}"
            )


def flag(options: Mapping[str, str], name: str) -> bool:
    """Whether an option is `true`; false where it is not given. Raises ConfigurationError for other values."""
    value = options.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigurationError(f"{name}={options[name]!r} must be true or false")
    return value == "true"


def with_agent_options(settings: Any, options: Mapping[str, str]) -> Any:
    """AgentSettings with those of the options that are an agent's. Raises ConfigurationError."""
    changed = {}
    for name in AGENT_OPTIONS:
        if name in options:
            field, kind = _FIELDS[name]
            try:
                changed[field] = kind(options[name].strip())
            except ValueError:
                raise ConfigurationError(f"{name}={options[name]!r} must be a number") from None
    return replace(settings, **changed)
