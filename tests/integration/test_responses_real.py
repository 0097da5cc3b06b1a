"""Real models behind `/v1/responses` and behind an agent that writes JSON: SmolLM2 as both of the pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from asymspec_agents import LocalBackend
from asymspec_agents.actions import ActionCaller, result_message
from asymspec_agents.server.app import create_app
from tests.gateway.serving import gateway, running
from tests.presets import preset_folder

pytestmark = pytest.mark.full

WAIT_S = 300.0
LOG = "\n".join(f"12:{n // 60:02}:{n % 60:02} mail: request {n} served" for n in range(120))


@pytest.fixture(scope="module")
def backend() -> Iterator[LocalBackend]:
    folder = str(preset_folder("smollm2-135m"))
    backend = LocalBackend.load(folder, folder)
    yield backend
    backend.close()


def test_a_response_is_the_same_whole_and_streamed_and_goes_on_from_its_items(backend: LocalBackend) -> None:
    asked: dict[str, Any] = {"model": "smollm", "max_output_tokens": 12}
    history: list[Any] = [{"role": "user", "content": f"{LOG}\n\nWhat is the capital of France?"}]
    with running(create_app({"smollm": backend})) as upstream, gateway(upstream) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=WAIT_S)
        whole = client.responses.create(input=history, **asked)
        with client.responses.stream(input=history, **asked) as stream:
            deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
            last = stream.get_final_response()
        assert whole.output_text == last.output_text == "".join(deltas) != ""
        assert whole.status in ("completed", "incomplete")
        for response in (whole, last):
            report = (response.model_extra or {})["asymspec"]
            assert report["drafter_prompt_tokens"] > report["verifier_prompt_tokens"] > 0
            assert response.usage is not None
            assert response.usage.input_tokens == report["verifier_prompt_tokens"]
        history += [item.model_dump(exclude_none=True) for item in whole.output]
        history.append({"role": "user", "content": "Say it again."})
        again = client.responses.create(input=history, **asked)
        assert again.usage is not None
        assert again.usage.input_tokens_details.cached_tokens > 0  # the view's beginning was read before
        client.close()


def test_a_grammar_makes_the_smallest_model_an_agent_that_writes_json(backend: LocalBackend) -> None:
    def read_log(service: str) -> str:
        """Reads a service's log."""
        return LOG

    schema = {
        "type": "object",
        "properties": {
            "name": {"enum": ["read_log"]},
            "arguments": {
                "type": "object",
                "properties": {"service": {"enum": ["mail", "web"]}},
                "required": ["service"],
                "additionalProperties": False,
            },
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "action", "schema": schema, "strict": True}}
    caller = ActionCaller(backend, [read_log], max_tokens=60, response_format=form)
    history: list[Any] = caller.start("Read the log of the mail service.")
    for _ in range(2):
        step = caller.call(history)
        assert step.action.name == "read_log"
        assert step.action.arguments["service"] in ("mail", "web")
        assert step.responses[-1].report is not None
        history += [*step.messages, result_message([read_log(**step.action.arguments)])]
    assert step.routed[-1].report.num_edits >= 1
