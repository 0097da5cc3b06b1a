"""`asymspec doctor URL` against servers: ours, others, and what is no server at all."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from asymspec_agents.backends import Capabilities, ScriptedBackend, scripted_response
from asymspec_agents.cli import main as cli
from asymspec_agents.diagnosis.server_checks import SERVER_CHECKS
from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecReport, CachedTokens
from tests.contract.servers import served, served_app
from tests.doctor import answering, doctor

KEY = "sk-not-to-be-shown"
ANSWER = "It is\n4711."
MODELS = {"object": "list", "data": [{"id": "big-model", "object": "model", "owned_by": "vllm"}]}
REPORT = AsymSpecReport(
    verifier_prompt_tokens=8, drafter_prompt_tokens=20, cached_tokens=CachedTokens(verifier=7, drafter=19)
)


class Counting(ScriptedBackend):
    """A scripted backend with known limits that counts tokens."""

    limits = (1_000, 9_000)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("big", "small", ("asymspec",), *self.limits)

    def prompt_ids(self, request: Any) -> list[int]:
        return [1, 2, 3]


def counting(report: AsymSpecReport = REPORT) -> Counting:
    return Counting(lambda request: scripted_response(ANSWER, report=report if request.asymspec else None))


def test_a_good_server_passes_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    with served(counting()) as server:
        code, found = doctor(capsys, server.url)
    assert code == 0
    assert {name: finding["status"] for name, finding in found.items() if finding["status"] != "ok"} == {
        "speed": "info",
        "metrics": "info",  # this one was started without
    }
    assert [check.name for check in SERVER_CHECKS if check.name not in found] == []
    assert found["limits"]["found"] == "compressed view up to 1,000 tokens, full view up to 9,000 tokens"
    assert found["models"]["found"] == "big"


def test_lines_say_status_name_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    backend = counting()
    backend.limits = (9_000, 8_999)
    with served(backend) as server:
        assert cli.main(["doctor", server.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok   address: {server.url.removesuffix('/v1')}"
    (place,) = (number for number, line in enumerate(lines) if line.startswith("warn limits: "))
    assert lines[place + 1].startswith("     fix: ")
    assert all(line.split(maxsplit=1)[0] in ("ok", "info", "warn", "FAIL", "fix:") for line in lines)


@pytest.mark.parametrize(
    ("limits", "status"),
    [((10, 11), "ok"), ((10, 10), "info"), ((11, 10), "warn"), ((None, 10), "info"), ((10, None), "info")],
)
def test_the_limits_of_both_views_are_compared(
    limits: Any, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = counting()
    backend.limits = limits
    with served(backend) as server:
        assert doctor(capsys, server.url)[1]["limits"]["status"] == status


@pytest.mark.parametrize(
    ("report", "status", "found"),
    [
        (REPORT.model_copy(update={"fallback": "families differ"}), "warn", "families differ"),
        (REPORT.model_copy(update={"verifier_prompt_tokens": 20}), "FAIL", "edits were not applied"),
    ],
)
def test_an_answer_without_the_method_is_found(
    report: AsymSpecReport, status: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(counting(report)) as server:
        _, findings = doctor(capsys, server.url)
    assert (findings["request"]["status"], found in findings["request"]["found"]) == (status, True)


def test_answers_that_differ_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["one", "two", "three", "four"])
    with served(Counting(lambda request: next(answers))) as server:
        _, found = doctor(capsys, server.url)
    assert found["request"]["status"] == "FAIL"
    assert "'one'" in found["request"]["found"]
    assert "'two'" in found["request"]["found"]
    assert found["plain request"]["status"] == "warn"


def test_a_server_that_fails_to_answer_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(request: Any) -> BaseException:
        return UnsupportedRequestError("no \x1b[31mway\r\nat all") if request.asymspec else ValueError("ours")

    with served(Counting(reply)) as server:
        _, found = doctor(capsys, server.url)
    assert found["request"]["found"] == "no �[31mway at all"
    assert "500" in found["plain request"]["found"]
    assert found["refusal"]["status"] == "ok"


@pytest.mark.parametrize(
    ("options", "fix"), [((), "--api-key KEY"), (("--api-key", "sk-wrong"), "started with")]
)
def test_a_wrong_key_is_found(options: tuple[str, ...], fix: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(counting(), api_keys=(KEY,)) as server:
        code, found = doctor(capsys, server.url, *options)
    assert code == 1
    assert found["health"]["status"] == "ok"
    assert "401" in found["key"]["found"]
    assert fix in found["key"]["fix"]
    assert found["not checked"]["found"].startswith("models, asymspec")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_right_key_passes(
    way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYMSPEC_API_KEY", KEY if way == "environment" else "other")
    with served(counting(), api_keys=(KEY,)) as server:
        code, found = doctor(capsys, server.url, *(("--api-key", KEY) if way == "option" else ()))
    assert (code, found["key"]["found"]) == (0, "accepted, or none is needed")


NOT_FOUND = JSONResponse({"detail": "Not Found"}, 404)
VLLM = {"/health": Response(), "/v1/models": MODELS, "/version": {"version": "0.32.0"}}
INFO = {"version": 1, "verifier": "v", "drafter": "d", "modes": ["asymspec"]}
COUNTS = {**VLLM, "/v1/asymspec": {**INFO, "tokenize": True}}


@pytest.mark.parametrize(
    ("answers", "other", "name", "found", "fix"),
    [
        ({}, NOT_FOUND, "models", "404", "OpenAI-compatible"),
        ({}, HTMLResponse("<h1>Hello</h1>"), "models", "not JSON", "OpenAI-compatible"),
        ({"/v1/models": {"data": [{"name": "x"}]}}, NOT_FOUND, "models", "OpenAI's form", "compatible"),
        ({"/v1/models": {"data": []}}, NOT_FOUND, "models", "no model", "start it"),
        (VLLM, NOT_FOUND, "asymspec", "vllm, version 0.32.0", "asymspec serve"),
        ({**VLLM, "/v1/asymspec": {**INFO, "version": 9}}, NOT_FOUND, "asymspec", "version 9", "--upgrade"),
        (
            {**VLLM, "/v1/asymspec": {**INFO, "modes": []}},
            NOT_FOUND,
            "asymspec",
            "no AsymSpec mode",
            "drafter",
        ),
        ({**VLLM, "/v1/asymspec": {"hello": 1}}, NOT_FOUND, "asymspec", "verifier", "--upgrade"),
        ({}, JSONResponse({"error": "dead"}, 503), "health", "503", "restart"),
        ({}, RedirectResponse("https://elsewhere/"), "health", "https://elsewhere/", "the address that"),
        ({**VLLM, "/v1/asymspec": INFO}, HTMLResponse("x"), "request", "not JSON", "log"),
        (
            {**VLLM, "/v1/asymspec": {**INFO, "tokenize": True}, "/tokenize": {}},
            NOT_FOUND,
            "tokenize",
            "count",
            "log",
        ),
        (
            {**VLLM, "/v1/asymspec": {**INFO, "tokenize": True}, "/tokenize": {"count": 0}},
            NOT_FOUND,
            "tokenize",
            "0 tokens",
            "update",
        ),
    ],
)
def test_other_servers_are_told_apart(
    answers: dict[str, Any],
    other: Response,
    name: str,
    found: str,
    fix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served_app(answering(answers, other)) as server:
        code, findings = doctor(capsys, server.url)
    assert code == 1
    assert findings[name]["status"] == "FAIL"
    assert found in findings[name]["found"]
    assert fix in findings[name]["fix"]


@pytest.mark.parametrize(
    ("answer", "status", "found"),
    [
        (JSONResponse({"error": {"message": "messages[0]: no", "code": 400}}, 400), "ok", "with 400"),
        (HTMLResponse("no", 422), "warn", "without a reason"),
        (JSONResponse({"error": {"message": "oops"}}, 500), "FAIL", "500"),
        (JSONResponse({"error": {"message": "later"}}, 429), "warn", "later"),
        (JSONResponse({"choices": []}), "warn", "as if"),
        (HTMLResponse("yes"), "FAIL", "not JSON"),
    ],
)
def test_the_way_a_server_refuses_is_judged(
    answer: Response, status: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served_app(answering({**VLLM, "/v1/chat/completions": answer}, NOT_FOUND)) as server:
        _, findings = doctor(capsys, server.url)
    assert (findings["refusal"]["status"], found in findings["refusal"]["found"]) == (status, True)


def test_secrets_that_a_server_repeats_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = JSONResponse({"error": {"message": f"Incorrect API key provided: {KEY}."}}, 401)
    with served_app(answering({"/health": {}}, refusal)) as server:
        assert cli.main(["doctor", server.url, "--api-key", KEY]) == 1
    output = capsys.readouterr()
    assert "Incorrect API key provided: ***." in output.out
    assert KEY not in output.out + output.err
