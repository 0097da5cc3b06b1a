"""Real smolagents agents over both models: what each call sends, and that no run is lost."""

import copy
import logging
from itertools import pairwise

import pytest
from smolagents.utils import AgentGenerationError

from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import BackendError, ContextOverflowError
from asymspec_agents.router import ContextRouter
from smolagents_asymspec import AsymSpecModel, RoutedModel, instrument
from tests.contract.agents import (
    FINAL,
    NEEDLE,
    NUM_LINES,
    STEP_STOP,
    Inner,
    Recorded,
    agent,
    answer,
    both_kinds,
    both_ways,
    call,
    text_call,
)


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
