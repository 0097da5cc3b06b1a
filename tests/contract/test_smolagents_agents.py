"""Real smolagents agents over both models: what each call sends, and that no run is lost."""

import copy
import json
import logging
from itertools import pairwise
from typing import ClassVar

import pytest
from PIL import Image
from smolagents import CodeAgent, Tool, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageStreamDelta, Model, TokenUsage, get_tool_json_schema
from smolagents.utils import AgentGenerationError

from asymspec_agents.backends.base import ChatResponse, Usage
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import BackendError, ContextOverflowError
from asymspec_agents.messages import ToolCall
from asymspec_agents.router import ContextRouter
from smolagents_asymspec import AsymSpecModel, RoutedModel, instrument

STEP_STOP = ("Observation:", "Calling tools:")
NUM_LINES = 900
NEEDLE = "line 450: the gate code is 7319"


class Report(Tool):
    name = "report"
    description = "Reads a report. " + "It has many pages, and this sentence explains them at length. " * 20
    inputs: ClassVar = {
        "topic": {"type": "string", "description": "What the report is about, as one lowercase word"},
        "page": {"type": "integer", "description": "The page", "nullable": True},
    }
    output_type = "string"

    def forward(self, topic: str, page: int | None = None) -> str:
        lines = [f"line {number}: nothing to see about {topic}" for number in range(NUM_LINES)]
        lines[450] = NEEDLE
        return "\n".join(lines)


class Echo(Tool):
    name = "echo"
    description = "Says it again."
    inputs: ClassVar = {"text": {"type": "string", "description": "What to say"}}
    output_type = "string"

    def forward(self, text: str) -> str:
        return f"echo of {text}"


def call(name: str, identity: str | None = "", **arguments: object) -> ToolCall:
    return ToolCall(id=identity, type="function", function={"name": name, "arguments": json.dumps(arguments)})


def answer(content: str = "", *calls: ToolCall) -> ChatResponse:
    return ChatResponse(content, calls, "tool_calls" if calls else "stop", Usage(100, 7), None)


def text_call(name: str, **arguments: object) -> str:
    return json.dumps({"name": name, "arguments": arguments})


FINAL = text_call("final_answer", answer="done")


class Inner(Model):
    """A scripted smolagents model that cannot stream."""

    def __init__(self, replies, **kwargs):
        super().__init__(model_id="inner", **kwargs)
        self.replies = list(replies)
        self.calls = []

    def generate(
        self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs
    ):
        self.calls.append(
            {"messages": messages, "stop": stop_sequences, "response_format": response_format,
             "tools": tools_to_call_from, **kwargs}
        )  # fmt: skip
        return ChatMessage(
            role="assistant",
            content=self.replies.pop(0),
            token_usage=TokenUsage(input_tokens=100, output_tokens=7),
        )


class StreamingInner(Inner):
    def generate_stream(
        self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs
    ):
        message = self.generate(messages, stop_sequences, response_format, tools_to_call_from, **kwargs)
        for character in message.content:
            yield ChatMessageStreamDelta(content=character)
        yield ChatMessageStreamDelta(content="", token_usage=message.token_usage)


class Recorded:
    """A model of either kind over a script, and the compressed views its verifier or inner model got."""

    def __init__(self, kind: str, replies, router=None, **kwargs) -> None:
        self.backend = ScriptedBackend(replies) if kind == "asymspec" else None
        self.inner = StreamingInner(replies, **kwargs) if kind == "routed" else None
        self.model = (
            AsymSpecModel(self.backend, router, **kwargs)
            if self.backend is not None
            else RoutedModel(self.inner, router)
        )

    @property
    def views(self) -> list[list[str]]:
        """Per call, the texts of the compressed view, one for each message."""
        if self.backend is not None:
            return [
                ["\n".join(m.texts()) for m in r.asymspec.compressed_messages(r.messages)]
                for r in self.backend.requests
            ]
        return [
            ["\n".join(p["text"] for p in m.content if p["type"] == "text") for m in c["messages"]]
            for c in self.inner.calls
        ]

    @property
    def stops(self) -> list[tuple[str, ...]]:
        if self.backend is not None:
            return [request.stop for request in self.backend.requests]
        return [tuple(c["stop"] or ()) for c in self.inner.calls]

    @property
    def has_tools(self) -> list[bool]:
        if self.backend is not None:
            return [bool(request.tools) for request in self.backend.requests]
        return [bool(c["tools"]) for c in self.inner.calls]


def agent(model, agent_class=ToolCallingAgent, tools=None, **more):
    return agent_class(tools or [Report(), Echo()], model, verbosity_level=-1, **more)


both_kinds = pytest.mark.parametrize("kind", ["asymspec", "routed"])
both_ways = pytest.mark.parametrize("stream", [False, True])


@both_kinds
@both_ways
def test_a_long_output_is_read_in_part_and_the_rest_verbatim(kind, stream):
    made = Recorded(kind, [text_call("report", topic="gates"), text_call("echo", text="x"), FINAL])
    assert agent(made.model, stream_outputs=stream).run("What is the gate code?") == "done"
    last = made.views[-1]
    assert len(last) == (6 if kind == "asymspec" else 8)  # the inner model merges roles itself
    observation = next(text for text in last if "nothing to see" in text)
    assert len(observation) < NUM_LINES * 20
    assert "New task:\nWhat is the gate code?" in last
    assert "Observation:\necho of x" in last
    assert any("Calling tools:\n[{'id': '" in text for text in last)
    if made.backend is not None:
        full = ["\n".join(message.texts()) for message in made.backend.requests[-1].messages]
        assert any(NEEDLE in text and text.count("\n") == NUM_LINES for text in full)


@both_kinds
def test_each_call_begins_like_the_one_before(kind):
    script = [text_call("report", topic="gates"), *[text_call("echo", text=str(n)) for n in range(5)], FINAL]
    made = Recorded(kind, script)
    agent(made.model).run("Find the code.")
    for before, after in pairwise(made.views):
        assert after[: len(before)] == before


@both_kinds
@both_ways
def test_the_four_prefixes_of_a_run(kind, stream):
    script = ["plan A", text_call("report", topic="a"), "plan B", text_call("echo", text="b"), "the end"]
    made = Recorded(kind, script)
    running = agent(made.model, planning_interval=1, max_steps=2, stream_outputs=stream)
    assert running.run("Find the gate code.") == "the end"
    assert made.stops == [("<end_plan>",), STEP_STOP, ("<end_plan>",), STEP_STOP, ()]
    assert made.has_tools == [False, True, False, True, False]
    plan, step, replan, _, final = made.views
    assert len(plan) == 1
    assert "Find the gate code." in plan[0]
    assert step[0].startswith("You are an expert assistant")
    assert replan[-1].endswith("Now write your new plan below.")  # never taken for the observation before it
    assert "Find the gate code." in final[-1]
    assert all(NEEDLE in text or text.count("\n") < NUM_LINES for view in made.views for text in view)
    if made.backend is not None:
        for request in made.backend.requests:
            roles = [message.role for message in request.messages]
            assert all(before != after for before, after in pairwise(roles))


@both_kinds
@both_ways
def test_usage_is_counted_once(kind, stream):
    made = Recorded(kind, ["plan", text_call("echo", text="x"), FINAL])
    if made.backend is not None:
        made = Recorded(kind, [answer("plan"), answer(text_call("echo", text="x")), answer(FINAL)])
    running = agent(made.model, planning_interval=5, stream_outputs=stream)
    running.run("Go.")
    assert running.monitor.get_total_token_counts().dict() == {
        "input_tokens": 200,
        "output_tokens": 14,
        "total_tokens": 214,
    }
    planning = running.memory.steps[1]
    assert (planning.token_usage.input_tokens, planning.token_usage.output_tokens) == (100, 7)


class BrokenRouter:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def route(self, messages, tools=None, *, tool_docs=()):
        raise self.error


class Events:
    captures_content = False

    def __init__(self) -> None:
        self.events = []

    def record(self, event, /, **fields):
        self.events.append((event, fields))


@both_ways
def test_a_failing_router_never_ends_a_run(stream, caplog):
    events = Events()
    backend = ScriptedBackend([text_call("report", topic="a"), FINAL])
    model = AsymSpecModel(backend, BrokenRouter(RuntimeError("secret content")), recorder=events)
    with caplog.at_level(logging.WARNING):
        assert agent(model, stream_outputs=stream).run("Go.") == "done"
    assert [request.asymspec.edits for request in backend.requests] == [(), ()]
    assert all(request.tools for request in backend.requests)
    assert NEEDLE in "".join(backend.requests[1].messages[-1].texts())
    assert events.events == [("route_failed", {"error": "RuntimeError"})] * 2
    assert caplog.text.count("routing failed with RuntimeError") == 1
    assert "secret content" not in caplog.text


def test_an_inner_model_gets_everything_when_the_router_fails():
    inner = Inner([text_call("report", topic="a"), FINAL])
    running = agent(RoutedModel(inner, BrokenRouter(ValueError("x"))))
    assert running.run("Go.") == "done"
    assert NEEDLE in inner.calls[1]["messages"][-1].content[0]["text"]
    assert inner.calls[1]["tools"] == running.tools_and_managed_agents


def test_a_router_whose_compressor_explodes_never_ends_a_run():
    class Explosive:
        configuration = "explosive"

        def compress(self, text, *, query, target_tokens, counter):
            raise MemoryError

    backend = ScriptedBackend([text_call("report", topic="a"), FINAL])
    assert agent(AsymSpecModel(backend, ContextRouter(compressor=Explosive()))).run("Go.") == "done"
    assert backend.requests[1].asymspec.edits


@pytest.mark.parametrize("where", ["router", "backend"])
def test_an_overflow_is_a_clear_error(where):
    error = ContextOverflowError("compressed", 5_000, 4_000)
    model = (
        AsymSpecModel(ScriptedBackend([FINAL]), BrokenRouter(error))
        if where == "router"
        else AsymSpecModel(ScriptedBackend([error]))
    )
    with pytest.raises(AgentGenerationError, match=r"compressed view has 5,000 tokens, 1,000 over the limit"):
        agent(model).run("Go.")


def test_a_backend_error_keeps_its_text():
    with pytest.raises(AgentGenerationError, match="server is down"):
        agent(AsymSpecModel(ScriptedBackend([BackendError("server is down")]))).run("Go.")


@both_ways
def test_parallel_calls_without_usable_ids_all_run_in_order(stream):
    calls = [call("echo", identity, text=str(n)) for n, identity in enumerate(["", None, "x", "x", ""])]
    backend = ScriptedBackend([answer("thinking", *calls), FINAL])
    running = agent(AsymSpecModel(backend), stream_outputs=stream)
    assert running.run("Go.") == "done"
    step = running.memory.steps[1]
    assert len({made.id for made in step.tool_calls}) == 5
    assert sorted(step.observations.split("\n")) == [f"echo of {n}" for n in range(5)]


@both_kinds
def test_instrument_keeps_parallel_outputs_apart(kind):
    made = Recorded(kind, [f"[{text_call('report', topic='a')}, {text_call('echo', text='b')}]", FINAL])
    if made.inner is not None:  # whose own parser finds one call only
        made.model.inner.parse_tool_calls = AsymSpecModel(ScriptedBackend([])).parse_tool_calls
    running = instrument(instrument(agent(made.model)))
    assert running.run("What is the gate code?") == "done"
    view = next(text for text in made.views[1] if text.startswith("Observation:"))
    first, second = view.split("Call id: ")[1:]
    assert first.partition("\n")[0].endswith(", tool: report:")
    assert len(first) < NUM_LINES * 20
    assert second.partition("\n")[0].endswith(", tool: echo:")
    assert second.rstrip("\n").endswith("\necho of b")


def test_a_deep_copy_of_an_instrumented_agent_is_an_agent_of_its_own():
    replies = [answer("", call("echo", "a", text="x"), call("echo", "b", text="y")), FINAL]
    original = instrument(agent(RoutedModel(AsymSpecModel(ScriptedBackend([])))))
    original.logger.console = original.monitor.logger.console = None  # which cannot be copied
    twin = copy.deepcopy(original, {id(original.model): AsymSpecModel(ScriptedBackend(replies))})
    original.tools.clear()
    assert twin.run("Go.") == "done"
    assert "tool: echo:\necho of x\nCall id: b" in twin.memory.steps[1].observations


@both_ways
def test_stop_strings_never_show(stream):
    class Deaf(ScriptedBackend):
        """Ignores stop strings, as a bad server does."""

    backend = Deaf([FINAL + "\nObservation: invented\n" + text_call("echo", text="no")])
    running = agent(AsymSpecModel(backend), stream_outputs=stream)
    assert running.run("Go.") == "done"
    assert running.memory.steps[1].model_output == FINAL + "\n"


@both_ways
def test_answers_of_tool_calls_only(stream):
    backend = ScriptedBackend(
        [answer("", call("echo", text="x")), answer("", call("final_answer", answer="done"))]
    )
    assert agent(AsymSpecModel(backend), stream_outputs=stream).run("Go.") == "done"
    assistant = backend.requests[1].messages[2]
    assert assistant.content.startswith("Calling tools:")


@both_kinds
def test_an_answer_without_a_call_is_mended_not_fatal(kind):
    made = Recorded(kind, ["I do not know.", FINAL])
    running = agent(made.model)
    assert running.run("Go.") == "done"
    assert "Error while parsing tool call" in str(running.memory.steps[1].error)


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
    for request in backend.requests:
        kinds = [
            part.type
            for message in request.messages
            if isinstance(message.content, tuple)
            for part in message.content
        ]
        assert kinds == ["text", "image_url"]
        assert request.messages[1].content[0].text == "New task:\nWhat is this?"
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
