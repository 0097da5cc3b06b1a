"""The demo's course on models that write given text: what is shown, judged and summed up."""

from __future__ import annotations

import json

import pytest

from asymspec_agents.backends import Capabilities, HTTPBackend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.cli.demo_tasks import TASKS, Outcome, maintenance_log
from asymspec_agents.cli.main import main
from tests.contract.servers import served
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
    assert "record_reading(" not in shown  # a call is shown as the model wrote it, once
    assert "\x1b" not in shown  # plain where standard output is no terminal


def test_the_same_runs_against_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    backend = writing_backend([CALL])
    drafter = backend.capabilities.drafter
    assert drafter is not None
    with served(backend, api_keys=("sk-demo",), **{drafter: backend.with_arm("drafter")}) as server:
        assert main(["demo", "--url", server.url, "--api-key", "sk-demo"]) == 0
    shown = capsys.readouterr().out
    assert f"Verifier {backend.capabilities.verifier}, drafter {drafter} at http://127.0.0.1:" in shown
    assert shown.count("right: measured_at in the call, wanted '2026-03-07T09:05:00'") == 1  # Floor's
    assert '\nrecord_reading({"station": "4471"' in shown  # a call as the server read it
    assert "call 1: verifier read " in shown
    arms = {row.split()[0]: row.split() for row in shown.splitlines() if "/6  " in row}
    assert list(arms) == ["asymspec", "floor", "drafter", "ceiling"]
    assert arms["floor"][1:3] == ["2/6", "3"]
    assert "sk-demo" not in shown
    salts = {body["cache_salt"] for body in server.bodies if "cache_salt" in body}
    assert len(salts) == len(arms)  # no arm finds what another one has computed


def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, problem in (
        (["--url", "http://127.0.0.1:1", "--verifier", "x"], "are the server's own"),
        (["--api-key", "sk-demo"], "--api-key is for a server"),
        (["--url", "127.0.0.1"], "must begin with http://"),
    ):
        assert main(["demo", *arguments]) == 2
        assert problem in capsys.readouterr().err


def test_a_server_without_a_drafter_cannot_be_asked_for_its_arm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capabilities = Capabilities("big", None, ("asymspec",))
    monkeypatch.setattr(HTTPBackend, "capabilities", capabilities)
    assert main(["demo", "--url", "http://127.0.0.1:1"]) == 2
    assert "names no drafter" in capsys.readouterr().err


def test_a_server_that_is_gone_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(HTTPBackend, "capabilities", Capabilities("big", "small", ("asymspec",)))
    assert main(["demo", "--url", "http://127.0.0.1:1"]) == 2
    shown = capsys.readouterr()
    assert "cannot connect to http://127.0.0.1:1" in shown.err
    assert "WRONG" not in shown.out


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
