"""The options of the decoding rule: named modes, ranges, and which distributions a rule reads."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from asymspec_agents.decoding.modes import MAX_DRAFT_TOKENS, MODES, Delta, Gate, Rule, named_rule
from asymspec_agents.errors import ConfigurationError


def test_the_modes_are_the_published_pairs() -> None:
    assert {name: (rule.gate, rule.delta, rule.scale) for name, rule in MODES.items()} == {
        "asymspec": ("cda", "context", None),
        "cda_only": ("cda", "none", None),
        "raw_full": ("cda", "full", None),
        "scd_delta": ("cda", "scd", None),
        "fixed_gate": ("fixed", "context", None),
        "fused_greedy": ("fused_greedy", "context", None),
        "product": ("fused_greedy", "full", None),
        "scaled": ("fused_greedy", "context", 4.0),
        "strict": ("strict", "none", None),
    }
    assert all(
        (rule.beta, rule.gamma, rule.slack, rule.plausibility) == (1, 0.5, 1, 0) for rule in MODES.values()
    )
    assert MAX_DRAFT_TOKENS == 8
    assert Rule() == MODES["asymspec"]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("beta", [0, 0.0, 4, 4.0, 1e-300], [-1e-9, 4.0000001]),
        ("gamma", [0, 4], [-0.1, 5]),
        ("slack", [1, 1e-300], [0, -0.5, 1.0000001]),
        ("plausibility", [0, 0.999999], [1, -0.1]),
        ("scale", [None, 1e-9, 1e9], [0, -1.0]),
    ],
)
def test_numbers_are_held_to_their_range(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(Rule(**{field: value}), field) == value
    never = [math.nan, math.inf, -math.inf, True, False, "1", [1], 1j]
    for value in [*bad, *never, *([] if field == "scale" else [None])]:
        with pytest.raises(ConfigurationError) as caught:
            Rule(**{field: value})
        assert f"{field}={value!r}" in str(caught.value)
        assert "outside" in str(caught.value)


def test_the_error_shows_which_end_of_a_range_is_open() -> None:
    bad: Any = -1
    intervals = {"beta": "[0, 4]", "slack": "(0, 1]", "plausibility": "[0, 1)", "scale": "(0, inf)"}
    for field, interval in intervals.items():
        with pytest.raises(ConfigurationError) as caught:
            Rule(**{field: bad})
        assert str(caught.value).endswith(interval)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_agreement_is_true_or_false(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="agreement="):
        Rule(agreement=value)


def test_unknown_names_are_errors_that_list_the_known_ones() -> None:
    unknown: tuple[dict[str, Any], ...] = ({"gate": "Cda"}, {"delta": None}, {"gate": ["cda"]})
    for options in unknown:
        ((field, value),) = options.items()
        with pytest.raises(ConfigurationError) as caught:
            Rule(**options)
        assert f"{field}={value!r}" in str(caught.value)
        assert all(name in str(caught.value) for name in get_args(Gate if field == "gate" else Delta))
    with pytest.raises(ConfigurationError, match=r"mode='nope' is unknown; modes: asymspec, .*strict"):
        named_rule("nope")


def test_a_named_mode_takes_parameters_and_checks_them() -> None:
    assert named_rule("scaled", beta=2.0) == Rule("fused_greedy", "context", beta=2.0, scale=4.0)
    assert MODES["scaled"].beta == 1.0
    with pytest.raises(ConfigurationError, match="gamma=9"):
        named_rule("asymspec", gamma=9)


def test_what_each_rule_reads() -> None:
    reads = {name: (rule.needs_drafter, rule.needs_base) for name, rule in MODES.items()}
    assert reads == {
        "asymspec": (True, True),
        "cda_only": (True, True),
        "raw_full": (True, True),
        "scd_delta": (True, True),
        "fixed_gate": (True, True),
        "fused_greedy": (True, True),
        "product": (True, False),
        "scaled": (True, True),
        "strict": (False, False),
    }
    assert (Rule("fixed", "none").needs_drafter, Rule("fixed", "none").needs_base) == (False, True)
    assert (Rule("slack", "scd").needs_drafter, Rule("slack", "scd").needs_base) == (False, True)
    assert not Rule("fused_greedy", "none").needs_base
    assert Rule("fused_greedy", "none", agreement=True).needs_drafter
    assert Rule("fused_greedy", "none", scale=1.0).needs_base
    assert not Rule("strict", "context", agreement=True, scale=1.0).needs_drafter


def test_a_rule_is_a_value() -> None:
    assert hash(Rule(beta=1.0)) == hash(Rule())
    with pytest.raises(FrozenInstanceError):
        Rule().beta = 2.0  # type: ignore[misc]


def test_the_options_do_not_import_torch() -> None:
    code = "import sys, asymspec_agents.protocol; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
