"""The table of arms: who reads what, and how each decodes."""

from __future__ import annotations

import pytest

from asymspec_agents.decoding.modes import MODES, Rule
from asymspec_agents.engine.arms import ARMS, Reading, arm_named
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecOptions

from .settings import ARM_READERS

MODELS = {"L": "verifier", "S": "drafter"}


def test_the_asymmetric_arm_reads_three_views() -> None:
    arm = ARMS["asymspec"]
    assert arm.verifying == Reading("verifier", "compressed")
    assert arm.drafting == Reading("drafter", "full")
    assert arm.base == Reading("drafter", "compressed")


@pytest.mark.parametrize("name", ARM_READERS)
def test_the_other_arms(name: str) -> None:
    verifying, drafting = ARM_READERS[name]
    arm = arm_named(name)
    assert arm.verifying == Reading(MODELS[verifying[0]], verifying[1])  # type: ignore[arg-type]
    expected = drafting and Reading(MODELS[drafting[0]], drafting[1])  # type: ignore[arg-type]
    assert (arm.drafting, arm.base) == (expected, None)


def test_no_arm_is_untested() -> None:
    assert set(ARMS) == {"asymspec", *ARM_READERS}


@pytest.mark.parametrize("mode", MODES)
def test_the_asymmetric_arm_decodes_as_asked(mode: str) -> None:
    options = AsymSpecOptions.of(mode=mode, num_draft_tokens=4, bonus="none", gamma=0.7)
    decoding = ARMS["asymspec"].decoding(options)
    assert (decoding.mode, decoding.rule) == (mode, options.rule())
    assert (decoding.num_draft_tokens, decoding.bonus, decoding.is_asymmetric) == (4, "none", True)
    assert decoding.keeps_gate is False
    assert ARMS["asymspec"].decoding(AsymSpecOptions.paper()).keeps_gate is True


def test_scd_takes_its_weight_from_the_options_and_nothing_else() -> None:
    options = AsymSpecOptions.of(mode="product", beta=0.5, gamma=0.1, plausibility=0.3)
    decoding = ARMS["scd"].decoding(options)
    assert decoding.rule == Rule("fused_greedy", "scd", beta=0.5, plausibility=0.1)
    assert (decoding.mode, decoding.is_asymmetric) == ("scd", False)


@pytest.mark.parametrize("name", ["symmetric_full", "symmetric_compressed", "rapid"])
def test_symmetric_arms_and_the_reversed_one_are_lossless(name: str) -> None:
    assert ARMS[name].decoding(AsymSpecOptions.of(gamma=0.0)).rule.gate == "strict"


def test_an_unknown_arm_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="'greedy' is unknown; arms: asymspec, floor"):
        arm_named("greedy")
