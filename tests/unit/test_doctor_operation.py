"""`asymspec doctor URL` on what runs: prefix caches, metrics, and what a gateway forwards to."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")
pytest.importorskip("prometheus_client", reason="the extra server is not installed")

from asymspec_agents.backends import ChatRequest, ChatResponse, ScriptedBackend, scripted_response
from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.protocol import AsymSpecReport, CachedTokens
from asymspec_agents.server.app import create_app
from asymspec_agents.trace.metrics_recorder import MetricsRecorder
from tests.contract.servers import served, served_app
from tests.doctor import doctor
from tests.gateway.serving import gateway


def reporting(verifier: int, drafter: int, fallback: str | None = None) -> ScriptedBackend:
    report = AsymSpecReport(
        verifier_prompt_tokens=400,
        drafter_prompt_tokens=1_000,
        cached_tokens=CachedTokens(verifier=verifier, drafter=drafter),
        fallback=fallback,
    )
    return ScriptedBackend(
        lambda request: scripted_response("x", report=report if request.asymspec else None)
    )


@pytest.mark.parametrize(
    ("kept", "status", "told"),
    [
        (
            (384, 896),
            "ok",
            "384 of 400 tokens of the compressed view and 896 of 1,000 tokens of the full view",
        ),
        ((0, 896), "warn", "the verifier reads it anew"),
        ((384, 0), "warn", "the drafter reads it anew"),
        ((0, 0), "warn", "the verifier and the drafter reads it anew"),
    ],
)
def test_a_repeated_prompt_shows_whether_prefixes_are_kept(
    kept: tuple[int, int], status: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(reporting(*kept)) as server:
        found = doctor(capsys, server.url)[1]["prefix cache"]
    assert found["status"] == status
    assert told in found["found"]


def test_answers_without_the_method_say_nothing_of_caches(capsys: pytest.CaptureFixture[str]) -> None:
    with served(reporting(0, 0, fallback="a reason")) as server:
        assert doctor(capsys, server.url)[1]["prefix cache"]["status"] == "info"


def test_a_server_of_small_limits_is_not_at_fault(capsys: pytest.CaptureFixture[str]) -> None:
    scripted = reporting(5, 5)

    def answer(request: ChatRequest) -> ChatResponse:
        if len(str(request.messages[0].content)) > 1_000:
            raise ContextOverflowError("full", 900, 100)
        return scripted.generate(request)

    with served(ScriptedBackend(answer)) as server:
        assert doctor(capsys, server.url)[1]["prefix cache"]["status"] == "info"


def test_metrics_are_found_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = MetricsRecorder(("engine",))
    app = create_app({"scripted": reporting(5, 5)}, recorder=metrics, metrics=metrics)
    with served_app(app) as server:
        found = doctor(capsys, server.url)[1]["metrics"]
    assert found["status"] == "ok"
    assert found["found"].endswith("/metrics")


def test_a_gateway_and_what_it_forwards_to(capsys: pytest.CaptureFixture[str]) -> None:
    with served(reporting(5, 5)) as server, gateway(server.url) as address:
        code, found = doctor(capsys, address)
    assert code == 0
    assert found["ready"]["found"] == "a gateway, and its upstreams answer (1)"
    assert found["metrics"]["status"] == "ok"


def test_a_gateway_to_nowhere_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway("http://127.0.0.1:1") as address:
        code, found = doctor(capsys, address)
    assert code == 1
    assert found["ready"]["status"] == "FAIL"
