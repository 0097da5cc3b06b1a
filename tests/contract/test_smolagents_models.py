"""Both models by themselves: parameters, attributes, streams, and what is saved of them."""

import copy
import json
import logging
import pickle
from types import SimpleNamespace

import pytest
from smolagents import REMOVE_PARAMETER, FinalAnswerTool, OpenAIModel, ToolCallingAgent
from smolagents.models import ChatMessage, agglomerate_stream_deltas

from asymspec_agents.backends import ChatResponse, Usage
from asymspec_agents.backends.scripted import ScriptedBackend, scripted_response
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import ToolCall
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from smolagents_asymspec import AsymSpecModel, RoutedModel, instrument
from tests.contract.agents import Custom, FakeClient

USER = [{"role": "user", "content": "Hello."}]
FINAL = json.dumps({"name": "final_answer", "arguments": {"answer": "done"}})
SECRET = "sk-do-not-save-me"


def asymspec(replies=("Hi.",), **kwargs):
    backend = ScriptedBackend(replies)
    return AsymSpecModel(backend, **kwargs), backend


def test_parameters_reach_the_request_in_smolagents_order():
    options = AsymSpecOptions.of(gamma=0.6)
    model, backend = asymspec(
        temperature=0.3, max_tokens=9, stop=REMOVE_PARAMETER, cache_salt="tenant", options=options, seed=1
    )
    model.generate(
        USER, stop_sequences=["x"], temperature=0.9, max_tokens=50, seed=2, response_format={"type": "text"}
    )
    (request,) = backend.requests
    assert (request.temperature, request.max_tokens, request.stop) == (0.3, 9, ())
    assert request.cache_salt == "tenant"
    assert (request.seed, request.extra) == (1, {})
    assert request.response_format == {"type": "text"}
    assert request.asymspec.wire() == {"version": 1, "gamma": 0.6, "edits": []}


def test_defaults_send_nothing_but_the_views():
    model, backend = asymspec()
    message = model(USER)
    (request,) = backend.requests
    assert (request.temperature, request.max_tokens, request.tool_choice, request.extra) == (
        None,
        None,
        None,
        {},
    )
    assert [m.wire() for m in request.messages] == USER
    assert message.raw.report.mode == "asymspec"
    assert (message.role, message.content, message.tool_calls) == ("assistant", "Hi.", None)


def test_a_bad_parameter_is_refused_at_construction():
    with pytest.raises(ConfigurationError, match="max_tokens=0"):
        asymspec(max_tokens=0)
    with pytest.raises(ConfigurationError, match="asymspec cannot be passed"):
        asymspec(extra_body={"asymspec": {}})


@pytest.mark.parametrize("model_id", ["gpt-5", "o3", "grok-4"])
def test_stop_strings_are_sent_whatever_the_model_is_called(model_id):
    model, backend = asymspec(["abc"], model_id=model_id)
    assert model.generate(USER, stop_sequences=["c"]).content == "ab"
    assert backend.requests[0].stop == ("c",)


def test_a_stream_adds_up_to_the_whole_answer():
    calls = tuple(
        ToolCall(id=identity, type="function", function={"name": "f", "arguments": arguments})
        for identity, arguments in (("a", '{"x": 1}'), ("a", {"x": 2}), (None, None))
    )
    reply = ChatResponse("thinking\nObservation: no", calls, "tool_calls", Usage(11, 5), None)
    model, _ = asymspec([reply, reply])
    whole = model.generate(USER, stop_sequences=["Observation:"])
    deltas = list(model.generate_stream(USER, stop_sequences=["Observation:"]))
    streamed = agglomerate_stream_deltas(deltas)
    assert streamed.content == whole.content == "thinking\n"
    assert [c.id for c in streamed.tool_calls] == [c.id for c in whole.tool_calls]
    assert len({c.id for c in whole.tool_calls}) == 3
    assert [c.function.arguments for c in streamed.tool_calls] == ['{"x": 1}', '{"x": 2}', "{}"]
    assert streamed.token_usage == whole.token_usage
    assert [delta.token_usage is not None for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    assert deltas[-1].content == ""


def test_a_call_without_a_function_is_left_out():
    calls = (ToolCall(id="a", type="custom"), ToolCall(id="b", function={"name": "f", "arguments": None}))
    model, _ = asymspec([scripted_response("", tool_calls=calls)] * 2)
    assert [call.id for call in model.generate(USER).tool_calls] == ["b"]
    assert [c.id for c in agglomerate_stream_deltas(list(model.generate_stream(USER))).tool_calls] == ["b"]


def test_tool_schemas_can_stand_for_tools():
    schema = {"type": "function", "function": {"name": "f", "description": "Long. " * 50, "parameters": {}}}
    model, backend = asymspec()
    model.generate(USER, tools_to_call_from=[schema])
    assert [tool.wire() for tool in backend.requests[0].tools] == [schema]


def test_closing_a_stream_closes_the_backends():
    closed = []

    class Endless(ScriptedBackend):
        def stream(self, request, *, abort=None):
            try:
                yield from iter(
                    lambda: SimpleNamespace(content="x", tool_calls=(), usage=None, report=None), None
                )
            finally:
                closed.append(True)

    stream = AsymSpecModel(Endless([])).generate_stream(USER)
    assert next(stream).content == "x"
    stream.close()
    assert closed == [True]


def test_a_server_that_is_not_asymspec_is_told_of_once(caplog):
    class Plain(ScriptedBackend):
        def generate(self, request):
            return scripted_response("plain")

    model = AsymSpecModel(Plain([]))
    with caplog.at_level(logging.WARNING):
        assert [model.generate(USER).content for _ in range(2)] == ["plain", "plain"]
    assert caplog.text.count("no AsymSpec report") == 1


def test_a_wrapper_has_the_attributes_of_its_inner_model():
    inner = Custom(temperature=0.5)
    model = RoutedModel(inner)
    assert (model.model_id, model.tool_name_key, model.tool_arguments_key) == ("custom", "tool", "args")
    assert model.kwargs == {"temperature": 0.5}
    assert model.flatten_messages_as_text is False
    assert model.supports_stop_parameter is True
    model.model_id = "gpt-5"
    assert inner.model_id == "gpt-5"
    assert model.supports_stop_parameter is False
    model.cleanup()
    assert inner.is_clean
    with pytest.raises(AttributeError, match="nonsense"):
        _ = model.nonsense
    calls = model.parse_tool_calls(
        ChatMessage(role="assistant", content='{"tool": "f", "args": {"x": 1}}')
    ).tool_calls
    assert calls[0].function.name == "f"


def test_a_wrapper_streams_exactly_if_its_inner_model_does():
    assert not hasattr(RoutedModel(Custom()), "generate_stream")
    with pytest.raises(ValueError, match="generate_stream"):
        ToolCallingAgent([], RoutedModel(Custom()), stream_outputs=True)
    assert hasattr(RoutedModel(AsymSpecModel(ScriptedBackend([]))), "generate_stream")
    assert hasattr(RoutedModel(RoutedModel(AsymSpecModel(ScriptedBackend([])))), "generate_stream")


def test_a_wrapper_passes_on_every_argument_and_only_those_given():
    inner = Custom()
    model = RoutedModel(inner)
    model.generate(USER)
    assert inner.seen == (USER, {})
    model.generate(USER, ["x"], {"type": "text"}, [], grammar="g")
    assert inner.seen[1] == {
        "stop_sequences": ["x"],
        "response_format": {"type": "text"},
        "tools_to_call_from": [],
        "grammar": "g",
    }


@pytest.mark.parametrize(
    ("messages", "tools"),
    [([{"role": "user", "content": 5}], None), (USER, [SimpleNamespace(name="no inputs")])],
    ids=["message", "tool"],
)
def test_what_only_the_inner_model_understands_is_handed_on(messages, tools):
    inner = Custom()
    RoutedModel(inner).generate(iter(messages), tools_to_call_from=tools)
    assert inner.seen == (messages, {} if tools is None else {"tools_to_call_from": tools})


def test_duck_typed_models_can_be_wrapped_and_others_are_refused():
    duck = SimpleNamespace(generate=lambda messages: ChatMessage(role="assistant", content=FINAL))
    model = RoutedModel(duck)
    assert model.model_id is None
    assert model(USER).content == FINAL
    assert model.parse_tool_calls(model(USER)).tool_calls[0].function.name == "final_answer"
    with pytest.raises(ConfigurationError, match="inner=str has no generate"):
        RoutedModel("model")


def test_wrappers_can_be_copied():
    model = RoutedModel(Custom())
    assert copy.copy(model).model_id == "custom"
    with pytest.raises(AttributeError):
        _ = RoutedModel.__new__(RoutedModel).anything
    assert pickle.loads(pickle.dumps(ViewPolicy(keep_last=1))) == ViewPolicy(keep_last=1)


def test_over_an_openai_model_its_own_parameters_stay_and_the_view_is_compressed():
    client = FakeClient()
    inner = OpenAIModel("m", client=client, extra_body={"cache_salt": "tenant"}, temperature=0)
    long = "Observation:\n" + "\n".join(f"line {n} of a long output" for n in range(2_000))
    messages = [
        ChatMessage(role="user", content=[{"type": "text", "text": "Read it."}]),
        ChatMessage(role="assistant", content=[{"type": "text", "text": "Calling tools:\n[]"}]),
        ChatMessage(role="tool-response", content=[{"type": "text", "text": long}]),
    ]
    answer = RoutedModel(inner).generate(
        messages, stop_sequences=["x"], tools_to_call_from=[FinalAnswerTool()]
    )
    (body,) = client.bodies
    assert body["extra_body"] == {"cache_salt": "tenant"}
    assert (body["temperature"], body["stop"], body["tool_choice"]) == (0, ["x"], "required")
    assert len(body["messages"][-1]["content"][0]["text"]) < len(long) / 2
    assert messages[-1].content[0]["text"] == long
    assert answer.token_usage.input_tokens == 3


def test_without_anything_to_compress_the_inner_model_gets_the_very_messages():
    inner = Custom()
    RoutedModel(inner).generate(USER)
    assert inner.seen[0][0] is USER[0]


def test_instrument_wraps_models_that_do_not_route():
    helper = ToolCallingAgent([], Custom(), name="helper", description="Helps.", verbosity_level=-1)
    running = ToolCallingAgent([], Custom(), managed_agents=[helper], verbosity_level=-1)
    with pytest.raises(ConfigurationError, match="model=Custom does not route"):
        instrument(running)
    router = ContextRouter()
    assert instrument(running, router) is running
    assert isinstance(running.model, RoutedModel)
    assert running.monitor.tracked_model is running.model
    assert helper.model.routing.router is router


def test_the_report_of_the_backend_is_at_hand():
    report = AsymSpecReport(accepted=3)
    model, _ = asymspec([scripted_response("x", report=report)])
    assert model.generate(USER).raw.report == report
