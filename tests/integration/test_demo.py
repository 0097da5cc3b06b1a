"""The demo's course on models that write given text: what is shown, judged and summed up."""

from __future__ import annotations

import json

import pytest

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.cli.demo_tasks import TASKS, Outcome, maintenance_log
from asymspec_agents.cli.main import main
from tests.engine.tiny_folder import writing_backend

CALL = json.dumps(
    {
        "name": "record_reading",
        "arguments": {
            "station": "4471",
            "measured_at": "2026-03-07T09:05:00",
            "values": [
                {"quantity": "level", "value": 1.82, "unit": "m"},
                {"quantity": "temperature", "value": 11.5, "unit": "degC"},
            ],
        },
    }
)


def test_arms_are_judged_by_the_same_items_and_a_failing_one_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalBackend, "load", classmethod(lambda cls, *a, **k: writing_backend([CALL])))
    assert main(["demo", "--arms", "asymspec", "floor"]) == 0
    shown = capsys.readouterr().out
    for task in TASKS:
        assert task.request in shown
    assert shown.count("the run failed: ") == 4  # full views, and the log, are too long for the small models
    assert "over the limit of" in shown
    assert shown.count("right: measured_at in the call, wanted '2026-03-07T09:05:00'") == 1
    assert shown.count("WRONG: measured_at in the call, wanted '2025-11-12T18:40:00'") == 2
    assert shown.count("WRONG: model in the answer") == 2
    assert "0 of 6    2 of 6" in shown
    assert "Of the 4 items Floor got wrong, AsymSpec got 0 right." in shown
    assert "\x1b" not in shown  # plain where standard output is no terminal


def test_the_items_tell_right_from_wrong() -> None:
    right = Outcome([json.loads(CALL)["arguments"]], "It is KX-4471-Z, serial 88213-D.")
    wrong = Outcome([{"measured_at": "9:05", "values": [1.82, 11.5]}], "It is model Farouk.")
    for task in TASKS[:2]:
        assert all(item.is_right(right) for item in task.items)
        assert not any(item.is_right(wrong) or item.is_right(Outcome()) for item in task.items)


def test_the_answers_stand_in_the_log_once() -> None:
    log = maintenance_log()
    assert log == maintenance_log()
    assert log.count("KX-4471-Z") == log.count("88213-D") == 1
