"""Running `asymspec doctor` on a server, and servers that answer what a test says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from asymspec_agents.cli import main as cli

__all__ = ["answering", "doctor"]


def doctor(
    capsys: pytest.CaptureFixture[str], url: str, *options: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    code = cli.main(["doctor", url, "--json", *options])
    output = capsys.readouterr()
    assert output.err == ""
    findings = json.loads(output.out)
    for finding in findings:
        assert (finding["fix"] is not None) == (finding["status"] in ("warn", "FAIL")), finding
        assert "\n" not in finding["found"]
    assert code == any(finding["status"] == "FAIL" for finding in findings)
    return code, {finding["name"]: finding for finding in findings}


def answering(answers: Mapping[str, Any], other: Response | None = None) -> Starlette:
    """An app that answers paths with these JSON objects or responses, everything else with `other`."""

    async def respond(request: Request) -> Response:
        answer = answers.get(request.url.path, other)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    return Starlette(routes=[Route("/{path:path}", respond, methods=["GET", "POST"])])
