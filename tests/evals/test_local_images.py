"""The local engine with a drafter that sees: the image is in the full view of exactly the arms it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from asymspec_agents.engine.vision.model import SeeingModel
from evals.cells import Cell
from evals.sample import Sample
from evals.suites.mathvista import MathVista
from evals.systems import SystemOptions, open_system
from evals.systems.local import LocalSystem
from tests.evals.mathvista_made import github
from tests.vision.pairs import pair_folders


@pytest.fixture(scope="module")
def system() -> Iterator[LocalSystem]:
    verifier, drafter = map(str, pair_folders("qwen2_vl"))
    opened = open_system(SystemOptions(verifier=verifier, drafter=drafter, dtype="float32", device="cpu"))
    assert isinstance(opened, LocalSystem)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def suite() -> MathVista:
    return MathVista()


@pytest.fixture(scope="module")
def sample(suite: MathVista, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    samples = suite.load(github(tmp_path_factory.mktemp("mathvista")))
    return replace(next(sample for sample in samples if sample.id == "1"), max_tokens=6)


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        ("asymspec on truncate@1", True),
        ("cda+none on truncate@1", True),
        ("drafter", True),
        ("ceiling", False),
        ("floor on truncate@1", False),
        ("symmetric_full", False),
        ("rapid on truncate@1", False),
    ],
)
def test_the_tower_runs_where_the_drafter_reads_everything(
    system: LocalSystem, suite: MathVista, sample: Sample, cell: str, seen: bool
) -> None:
    model = system._backend.engine.models["drafter"]
    assert isinstance(model, SeeingModel)
    model._features.take(_digest(model))
    before = model.num_seen
    output = suite.answer(sample, system.asker(suite, sample, Cell.parse(cell)))
    assert model.num_seen - before == seen
    assert output.trajectory[0]["full_view"] == ("image" if seen else "text")
    (call,) = output.calls
    assert call.fallback is None
    if seen and cell != "drafter":
        assert len(call.accepted_per_position) == 5  # four drafts and the one behind them


def _digest(model: SeeingModel) -> str:
    """The image that was seen last, to be forgotten."""
    return next(reversed(model._features._entries), "")  # type: ignore[arg-type]


def test_only_the_drafter_sees(system: LocalSystem) -> None:
    assert system.seeing == {"drafter"}
