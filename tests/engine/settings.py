"""The naive counterpart of a request to a small engine, arm by arm, from the published table of arms."""

from __future__ import annotations

import functools

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.protocol import AsymSpecOptions

from .naive import Naive, Reader, Rows
from .tiny import VOCAB, pair

__all__ = ["ARM_READERS", "naive_arm", "naive_asymspec"]

# Who verifies, who drafts, who scores again: (model, view), L the verifier and S the drafter model.
ARM_READERS = {
    "floor": (("L", "compressed"), None),
    "ceiling": (("L", "full"), None),
    "drafter": (("S", "full"), None),
    "symmetric_full": (("L", "full"), ("S", "full")),
    "symmetric_compressed": (("L", "compressed"), ("S", "compressed")),
    "scd": (("L", "compressed"), ("S", "compressed")),
    "rapid": (("L", "full"), ("S", "compressed")),
}


@functools.cache
def rows(architecture: str, model: str) -> Rows:
    """The memo of one model, shared by all settings of a test run."""
    verifier, drafter = pair(architecture)
    return Rows((verifier if model == "L" else drafter).module)


def _reader(architecture: str, views: tuple[list[int], list[int]], model: str, view: str) -> Reader:
    return Reader(rows(architecture, model), tuple(views[0] if view == "full" else views[1]))


def naive_asymspec(
    architecture: str, views: tuple[list[int], list[int]], options: AsymSpecOptions, rule: Rule | None = None
) -> Naive:
    """The naive loop of the asymmetric arm; `rule` where the options' own does not apply."""
    rule = rule or options.rule()
    reads_base = rule.gate != "strict" and (
        rule.gate in ("cda", "fixed", "position")
        or rule.delta in ("context", "scd")
        or rule.scale is not None
    )
    return Naive(
        rule,
        options.num_draft_tokens,
        options.bonus,
        VOCAB,
        verifier=_reader(architecture, views, "L", "compressed"),
        drafter=_reader(architecture, views, "S", "full"),
        base=_reader(architecture, views, "S", "compressed") if reads_base else None,
    )


def naive_arm(
    architecture: str, views: tuple[list[int], list[int]], arm: str, options: AsymSpecOptions
) -> Naive:
    """The naive loop of another arm. SCD's amateur is its drafter: both views of it are one."""
    verifying, drafting = ARM_READERS[arm]
    drafter = None if drafting is None else _reader(architecture, views, *drafting)
    is_scd = arm == "scd"
    rule = (
        Rule("fused_greedy", "scd", beta=options.beta, plausibility=0.1) if is_scd else Rule("strict", "none")
    )
    return Naive(
        rule,
        options.num_draft_tokens,
        options.bonus,
        VOCAB,
        verifier=_reader(architecture, views, *verifying),
        drafter=drafter,
        base=drafter if is_scd else None,
    )
