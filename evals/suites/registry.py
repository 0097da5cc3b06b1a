"""The suites by name, each imported when it is asked for."""

from __future__ import annotations

import importlib
import inspect

from asymspec_agents.errors import ConfigurationError

from ..suite import Suite

__all__ = ["SUITES", "suite_named"]

SUITES: dict[str, str] = {
    "api_bank": "api_bank:ApiBank",
    "bfcl_memory_context": "bfcl_memory:BfclMemoryContext",
    "bfcl_multiple": "bfcl:BfclMultiple",
    "bfcl_parallel": "bfcl:BfclParallel",
    "bfcl_simple": "bfcl:BfclSimple",
    "gaia": "gaia:Gaia",
    "gaia_react": "react:GaiaReact",
    "longbench_2wikimqa": "longbench:TwoWikiMultihopQA",
    "longbench_hotpotqa": "longbench:HotpotQA",
    "longbench_musique": "longbench:MuSiQue",
    "mathvista": "mathvista:MathVista",
    "multi_challenge": "multi_challenge:MultiChallenge",
    "multihop": "multihop:Multihop",
    "react_multihop": "react_multihop:ReactMultihop",
    "simpleqa": "simpleqa:SimpleQA",
    "simpleqa_react": "react:SimpleQAReact",
    "simpleqa_verified": "simpleqa:SimpleQAVerified",
}
"""Name to `module:Class`."""


def suite_named(text: str) -> Suite:
    """The suite of `name`, or of `name:option=value,option=value` where it has options.

    A suite with options is another suite: the whole text, with the options in order, is its name in records,
    and its title tells them too.
    Raises ConfigurationError listing the names, or the options.
    """
    name, _, given = text.partition(":")
    if name not in SUITES:
        raise ConfigurationError(f"suite={name!r} is unknown; suites: {', '.join(sorted(SUITES))}")
    module, _, attribute = SUITES[name].partition(":")
    kind = getattr(importlib.import_module(f".{module}", __package__), attribute)
    options = dict(_option(text, pair) for pair in given.split(",")) if given else {}
    known = list(inspect.signature(kind).parameters)
    for option in options:
        if option not in known:
            raise ConfigurationError(
                f"suite={text!r}: option {option!r} is unknown; {name} has {', '.join(known) or 'none'}"
            )
    suite: Suite = kind(**options)
    if options:
        chosen = ",".join(f"{option}={options[option]}" for option in sorted(options))
        suite.name, suite.title = f"{name}:{chosen}", f"{suite.title}; {chosen}"
    return suite


def _option(text: str, pair: str) -> tuple[str, str]:
    option, separator, value = pair.partition("=")
    if not separator:
        raise ConfigurationError(f"suite={text!r}: {pair!r} must be option=value")
    return option.strip(), value.strip()
