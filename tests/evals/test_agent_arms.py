"""An episode goes through every arm alike: tiny models, which write nonsense, with a file to read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from evals.agents.episode import run_episode
from evals.agents.passages import PassageIndex
from evals.agents.policy import episode_policy
from evals.agents.settings import AgentSettings
from evals.agents.tools import PassageSearchTool
from evals.cells import BASELINES, ArmSpec, Cell, ViewSpec, cells_of
from evals.records import Output
from evals.systems import System, open_system
from tests.evals.tiny_system import LONG, QUERY, made_up_sample, tiny_options

VIEW = ViewSpec("truncate", 0.3)
CELLS = [str(cell) for cell in cells_of(tuple(map(ArmSpec, (*BASELINES, "identical", "asymspec"))), (VIEW,))]
SETTINGS = AgentSettings(max_steps=2, max_step_tokens=6, system_prompt="Search.")
FORCED = AgentSettings(max_steps=1, max_step_tokens=16, system_prompt="Search.", forces_calls=True)
CALL = "<tool_call>"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("pair")
    options = tiny_options(folder)
    for config in folder.glob("*/config.json"):  # an agent's prompt is longer than theirs, a token a byte
        config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 16_384}))
    opened = open_system(options)
    yield opened
    opened.close()


def episode(system: System, name: str, settings: AgentSettings = SETTINGS) -> Output:
    cell = Cell.parse(name)
    asker = system.asker(None, made_up_sample(), cell)  # type: ignore[arg-type]  # no suite is needed
    return run_episode(
        QUERY,
        [PassageSearchTool(PassageIndex(("A pump.",)))],
        asker,
        settings,
        policy=episode_policy(cell.view, first_sight_tokens=30),
        files=[{"type": "text", "text": LONG}],
    )


@pytest.mark.parametrize("cell", CELLS)
def test_an_episode_is_answered_and_recorded(system: System, cell: str) -> None:
    output = episode(system, cell)
    assert [step.get("step") for step in output.trajectory] == [1, 2, 3, None]
    assert output.trajectory[-1]["end"] == "max_steps"
    assert len(output.calls) == 3  # two steps, and the last words
    for call in output.calls:
        assert 0 < call.completion_tokens <= 6
        assert call.full_tokens is not None
        if cell.endswith(str(VIEW)):
            assert call.compressed_tokens is not None
            assert call.compressed_tokens < 0.8 * call.full_tokens
        else:
            assert call.compressed_tokens is None


@pytest.mark.parametrize("cell", CELLS)
def test_calls_can_be_forced_on_every_arm(system: System, cell: str) -> None:
    output = episode(system, cell, FORCED)
    assert output.calls[0].text.startswith(CALL)


def test_the_full_view_twice_is_the_full_view(system: System) -> None:
    assert episode(system, "identical").calls[-1].text == episode(system, "ceiling").calls[-1].text
