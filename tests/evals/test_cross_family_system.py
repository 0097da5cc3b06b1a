"""Evaluations of a pair of two families: what its map can serve is asked, the rest is refused beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.cells import ArmSpec
from evals.systems import System, SystemOptions, open_system
from tests.decoding.made_tokenizers import made
from tests.engine.tiny_folder import save_model
from tests.engine.two_families import models
from tests.evals.tiny_system import asked


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("families")
    for name, model in zip(("words", "digits"), models("words", "digits"), strict=True):
        save_model(folder / name, model.module, made(name))
    options = SystemOptions(
        verifier=str(folder / "words"),
        drafter=str(folder / "digits"),
        dtype="float32",
        device="cpu",
        vocab_map="auto",
    )
    opened = open_system(options)
    yield opened
    opened.close()


def test_arms_that_a_map_can_serve_answer(system: System) -> None:
    assert system.identity["vocab_map"] == "auto"
    for cell in ("drafter", "floor on truncate@0.5", "asymspec on truncate@0.5"):
        _, output = asked(system, cell)
        assert output.calls[0].completion_tokens > 0


@pytest.mark.parametrize("arm", ["scd", "product", "raw_full", "fixed+scd"])
def test_arms_that_it_cannot_are_refused_by_name(system: System, arm: str) -> None:
    assert "another family" in str(system.refusal(ArmSpec(arm)))


@pytest.mark.parametrize("arm", ["asymspec", "scaled", "floor", "ceiling", "rapid", "cda+none"])
def test_the_others_are_not(system: System, arm: str) -> None:
    assert system.refusal(ArmSpec(arm)) is None


def test_a_map_is_for_local_models() -> None:
    with pytest.raises(ConfigurationError, match="vocab_map: only for local models"):
        SystemOptions(url="http://127.0.0.1:1", vocab_map="auto")
