"""Real smolagents agents of every kind: code agents, templates, images, managed agents, callbacks."""

import json

from PIL import Image
from smolagents import CodeAgent
from smolagents.models import get_tool_json_schema

from asymspec_agents.backends.scripted import ScriptedBackend
from smolagents_asymspec import AsymSpecModel, RoutedModel, instrument
from tests.contract.agents import (
    FINAL,
    NEEDLE,
    NUM_LINES,
    STEP_STOP,
    Inner,
    Recorded,
    Report,
    agent,
    both_kinds,
    both_ways,
    text_call,
)


@both_kinds
@both_ways
def test_code_agents_run_and_their_tool_docs_are_signatures(kind, stream):
    made = Recorded(
        kind, ['Thought: read.\n<code>\nprint(report("gates"))', "<code>\nfinal_answer('done')\n</code> more"]
    )
    running = agent(made.model, CodeAgent, stream_outputs=stream)
    assert running.run("What is the gate code?") == "done"
    assert made.stops == [(*STEP_STOP, "</code>")] * 2
    assert made.has_tools == [False, False]
    system = made.views[1][0]
    assert "def report(topic: string, page: integer) -> string: ..." in system
    assert "explains them at length" not in system
    assert "explains them at length" in running.memory.system_prompt.system_prompt
    assert "one lowercase word" not in system
    assert len(made.views[1][-1]) < NUM_LINES * 20
    if made.backend is not None:
        full = made.backend.requests[1].messages[-1].content
        assert full.startswith("Observation:\nExecution logs:\nline 0:")
        assert NEEDLE in full


def test_structured_outputs_ask_for_their_format():
    backend = ScriptedBackend([json.dumps({"thought": "t", "code": "final_answer('done')"})])
    running = agent(AsymSpecModel(backend), CodeAgent, use_structured_outputs_internally=True)
    assert running.run("Go.") == "done"
    assert backend.requests[0].response_format["json_schema"]["name"] == "ThoughtAndCodeAnswer"


@both_kinds
def test_templates_of_the_users_own_are_known_by_instrument(kind):
    made = Recorded(kind, ["<code>\nfinal_answer('done')\n</code>"])
    running = agent(made.model, CodeAgent)
    running.prompt_templates["system_prompt"] = (
        "You have:\n{% for tool in tools.values() %}* {{ tool.name }}: {{ tool.description }}\n{% endfor %}"
    )
    instrument(running).run("Go.")
    assert "* report: report(topic: string, page?: integer|null) -> string" in made.views[0][0]


def test_images_are_sent_once_in_each_request():
    backend = ScriptedBackend([text_call("echo", text="a"), text_call("echo", text="b"), FINAL])
    picture = Image.new("RGB", (8, 8), "red")
    model = AsymSpecModel(backend)
    assert agent(model).run("What is this?", images=[picture]) == "done"
    for request in backend.requests:  # the drafter here sees no images
        assert request.messages[1].content.startswith("New task:\nWhat is this?\n[image: PNG, 8×8, ")
        assert sum(text.count("[image: ") for message in request.messages for text in message.texts()) == 1
    assert model._images.num_encoded == 1


def test_an_inner_model_gets_its_own_images():
    inner = Inner([text_call("echo", text="a"), FINAL])
    picture = Image.new("RGB", (8, 8), "red")
    assert agent(RoutedModel(inner)).run("What is this?", images=[picture]) == "done"
    parts = [
        part for message in inner.calls[1]["messages"] for part in message.content if part["type"] == "image"
    ]
    assert len(parts) == 2
    assert all(part["image"] is picture for part in parts)


@both_kinds
@both_ways
def test_managed_agents_are_called_and_offered_as_tools(kind, stream):
    script = [
        text_call("helper", task="say x"),
        text_call("echo", text="x"),
        FINAL,
        text_call("final_answer", answer="all"),
    ]
    made = Recorded(kind, script)
    helper = agent(made.model, name="helper", description="Helps with everything. " * 10)
    manager = instrument(agent(made.model, managed_agents=[helper], stream_outputs=stream))
    assert manager.run("Go.") == "all"
    if made.backend is not None:
        names = [tool.function.name for tool in made.backend.requests[0].tools]
        required = made.backend.requests[0].tools[-1].function.parameters["required"]
    else:
        names = [tool.name for tool in made.inner.calls[0]["tools"]]
        required = get_tool_json_schema(made.inner.calls[0]["tools"][-1])["function"]["parameters"][
            "required"
        ]
    assert names == ["report", "echo", "final_answer", "helper"]
    assert required == ["task"]
    assert "Helps with everything" not in made.views[0][0]


def test_an_inner_model_gets_signatures_and_the_agent_runs_the_real_tools():
    inner = Inner([text_call("report", subject="wrong name"), text_call("report", topic="a"), FINAL])
    running = agent(RoutedModel(inner))
    assert running.run("Go.") == "done"
    assert "Argument subject is not in the tool's input schema" in str(running.memory.steps[1].error)
    shown = get_tool_json_schema(inner.calls[0]["tools"][0])["function"]
    real = get_tool_json_schema(running.tools["report"])["function"]
    assert "length" in real["description"]
    assert "length" not in shown["description"]
    assert shown["name"] == real["name"]
    assert shown["parameters"]["required"] == real["parameters"]["required"] == ["topic"]
    assert shown["parameters"]["properties"]["topic"] == {"type": "string"}
    assert isinstance(inner.calls[0]["tools"][0], Report)
    assert inner.calls[0]["tools"][0] is not running.tools["report"]


@both_kinds
def test_callbacks_that_rewrite_memory_are_followed(kind):
    def forget(step, agent):
        if step.observations and NEEDLE in step.observations:
            step.observations = "forgotten"

    made = Recorded(kind, [text_call("report", topic="a"), FINAL])
    assert agent(made.model, step_callbacks=[forget]).run("Go.") == "done"
    assert "Observation:\nforgotten" in made.views[1]


@both_kinds
def test_a_full_result_can_be_written_as_json(kind):
    made = Recorded(kind, [text_call("echo", text="x"), FINAL])
    result = agent(made.model).run("Go.", return_full_result=True)
    assert result.output == "done"
    assert "echo of x" in json.dumps(result.steps)


def test_two_models_make_the_same_request_of_the_same_messages():
    made = [Recorded("asymspec", [text_call("report", topic="a"), FINAL]) for _ in range(2)]
    for one in made:
        agent(one.model).run("Go.")
    requests = [one.backend.requests[1] for one in made]
    assert requests[0].messages == requests[1].messages
    assert requests[0].asymspec == requests[1].asymspec
