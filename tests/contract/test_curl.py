"""`curl` against the server: a plain call, a stream, an error."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from asymspec_agents.backends import ScriptedBackend
from tests.server.serving import serving

KEY = "test-key"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ScriptedBackend(lambda request: "read:\nHello\n"), api_keys=(KEY,)) as url:
        yield url


def curl(url: str, body: dict[str, Any]) -> str:
    command = shutil.which("curl")
    if command is None:
        pytest.skip("curl is not installed")
    headers = ["-H", "content-type: application/json", "-H", f"authorization: Bearer {KEY}"]
    done = subprocess.run(
        [command, "-sS", "-N", "--noproxy", "*", *headers, "-d", json.dumps(body), url],
        capture_output=True,
        timeout=60,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_curl_gets_an_answer_and_a_stream(url: str) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    answer = json.loads(curl(f"{url}/v1/chat/completions", body))
    assert answer["choices"][0]["message"]["content"] == "read:\nHello\n"
    lines = curl(f"{url}/v1/chat/completions", {**body, "stream": True}).splitlines()
    assert lines[-2:] == ["data: [DONE]", ""]
    assert all(line.startswith("data: ") or not line for line in lines)
    assert json.loads(curl(f"{url}/v1/chat/completions", {}))["error"]["param"] == "messages"
