"""The suites by name: one family of benchmarks a module, imported when one of its suites is asked for."""

from __future__ import annotations

import importlib

from asymspec_agents.errors import ConfigurationError

from ..suite import Suite

__all__ = ["SUITES", "suite_named"]

SUITES: dict[str, str] = {
    "gaia_react": "react:GaiaReact",
    "react_multihop": "react_multihop:ReactMultihop",
    "simpleqa_react": "react:SimpleQAReact",
}
"""Name to `module:Class`."""


def suite_named(name: str) -> Suite:
    """The suite of that name; raises ConfigurationError listing the names."""
    if name not in SUITES:
        raise ConfigurationError(f"suite={name!r} is unknown; suites: {', '.join(sorted(SUITES))}")
    module, _, attribute = SUITES[name].partition(":")
    suite: Suite = getattr(importlib.import_module(f".{module}", __name__), attribute)()
    return suite
