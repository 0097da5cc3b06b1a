"""smolagents over HTTP: what a server is sent by both models, and what they make of its answers."""

import threading

from smolagents import CodeAgent, OpenAIModel
from smolagents.models import agglomerate_stream_deltas

from asymspec_agents.backends import ChatDelta, ChatResponse, HTTPBackend, Usage
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest
from smolagents_asymspec import AsymSpecModel, RoutedModel
from tests.contract.agents import (
    NEEDLE,
    STEP_STOP,
    Echo,
    Report,
    agent,
    answer,
    both_kinds,
    both_ways,
    call,
)
from tests.contract.servers import served

KEY = "sk-of-the-server"
USER = [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]


def model_over(kind, url, router=None, *, options=None, **kwargs):
    """A model of either kind on the server; one argument differs from a local one."""
    if kind == "asymspec":
        return AsymSpecModel(HTTPBackend(url, api_key=KEY), router, options=options, **kwargs)
    inner = OpenAIModel("scripted", api_base=url, api_key=KEY, **kwargs)
    return RoutedModel(inner, router, options=options or AsymSpecOptions())


def chats(server):
    """The bodies of the chat requests, each with the messages of both its views."""
    made = []
    for body in server.bodies:
        if body.pop("path") == "/v1/chat/completions":
            full = parse_messages(body["messages"])
            asymspec = AsymSpecRequest.of(**body["asymspec"])
            made.append((body, full, asymspec.compressed_messages(full)))
    return made


def texts(messages):
    return ["\n".join(message.texts()) for message in messages]


@both_ways
@both_kinds
def test_a_tool_calling_agents_run(kind, stream):
    backend = ScriptedBackend(
        [
            answer("", call("report", "a", topic="mail")),
            answer("", call("echo", "b", text="7319")),
            answer("", call("final_answer", "c", answer="7319")),
        ]
    )
    with served(backend, api_keys=(KEY,)) as server:
        model = model_over(kind, server.url, options=AsymSpecOptions.of(gamma=0.6))
        running = agent(model, stream_outputs=stream)
        assert running.run("What is the gate code?") == "7319"
    assert server.paths.count("/v1/asymspec") == 1  # one handshake for the whole run
    first, second, third = chats(server)
    for body, full, compressed in (first, second, third):
        assert body["model"] == "scripted"
        assert body["temperature"] == 0
        assert body.get("stream", False) is stream
        if stream:
            assert body["stream_options"] == {"include_usage": True}
        assert tuple(body["stop"]) == STEP_STOP
        assert body["asymspec"]["version"] == 1
        assert body["asymspec"]["gamma"] == 0.6
        assert [tool["function"]["description"] for tool in body["tools"][:2]] == [
            Report.description,
            Echo.description,
        ]
        signatures = {tool["function"]["name"]: tool["function"] for tool in body["asymspec"]["tools"]}
        assert len(signatures) == len(body["tools"])
        assert "explains them at length" not in str(signatures["report"])
        assert signatures["report"]["parameters"]["required"] == ["topic"]
        assert [message.role for message in full] == [message.role for message in compressed]
        assert Report.description in full[0].texts()[0]
        assert Report.description not in compressed[0].texts()[0]  # in the system prompt as well
    assert "asymspec" not in texts(first[1])[0]
    long, short = texts(second[1])[-1], texts(second[2])[-1]
    assert NEEDLE in long
    assert len(short) < len(long) / 2
    assert texts(third[1])[-1].endswith("Observation:\necho of 7319")
    assert texts(third[2])[-1] == texts(third[1])[-1]
    before = len(second[2])
    assert third[2][:before] == second[2]  # a view once sent stays as it is
    usage = running.monitor.get_total_token_counts()
    assert (usage.input_tokens, usage.output_tokens) == (300, 21)


@both_ways
@both_kinds
def test_a_code_agents_run(kind, stream):
    backend = ScriptedBackend(
        [
            answer("Thought: read.\n<code>\nprint(report(topic='mail'))\n</code>"),
            answer("Thought: done.\n<code>\nfinal_answer('7319')\n</code>"),
        ]
    )
    with served(backend, api_keys=(KEY,)) as server:
        running = agent(model_over(kind, server.url), CodeAgent, stream_outputs=stream)
        assert running.run("What is the gate code?") == "7319"
    first, second = chats(server)
    assert "tools" not in first[0]
    assert "tools" not in first[0]["asymspec"]
    assert Report.description in texts(first[1])[0]
    assert Report.description not in texts(first[2])[0]
    assert "def report(" in texts(first[2])[0]
    assert NEEDLE in texts(second[1])[-1]
    assert len(texts(second[2])[-1]) < len(texts(second[1])[-1]) / 2


def test_both_kinds_make_the_same_of_a_call():
    with served(ScriptedBackend([answer("", call("final_answer", "a", answer="x"))] * 2)) as server:
        for each in ("asymspec", "routed"):
            agent(model_over(each, server.url)).run("What is the gate code?")
    (_, *ours), (_, *inner) = chats(server)
    assert [texts(view) for view in ours] == [texts(view) for view in inner]


@both_ways
@both_kinds
def test_reasoning_is_no_part_of_the_content(kind, stream):
    reply = ChatResponse("Hi.", (), "stop", Usage(10, 5), None, (), "I greet back.")
    with served(Thinking([reply])) as server:
        model = model_over(kind, server.url)
        if stream:
            message = agglomerate_stream_deltas(list(model.generate_stream(USER)))
        else:
            message = model.generate(USER)
            if kind == "asymspec":
                assert message.raw.reasoning == "I greet back."
    assert message.content == "Hi."
    assert (message.token_usage.input_tokens, message.token_usage.output_tokens) == (10, 5)


class Thinking(ScriptedBackend):
    """Gives its reply's reasoning first."""

    def stream(self, request, *, abort=None):
        yield ChatDelta(reasoning="I greet back.")
        yield from super().stream(request, abort=abort)


@both_ways
def test_the_report_is_at_hand_and_wanted(stream):
    with served(ScriptedBackend([answer("Hi.")])) as server:
        model = model_over("routed", server.url)
        if stream:
            assert agglomerate_stream_deltas(list(model.generate_stream(USER))).content == "Hi."
        else:
            assert model.generate(USER).raw.model_extra["asymspec"]["mode"] == "asymspec"


@both_kinds
def test_closing_a_stream_ends_the_request_on_the_server(kind):
    aborted = threading.Event()

    class Endless(ScriptedBackend):
        def stream(self, request, *, abort=None):
            try:
                while abort is None or not abort.wait(0.01):
                    yield ChatDelta(content="word ")
            finally:  # the server may close the stream before the next look at `abort`
                aborted.set()

    with served(Endless([])) as server:
        stream = model_over(kind, server.url).generate_stream(USER)
        assert any(delta.content == "word " for delta in stream)
        stream.close()
        assert aborted.wait(60)


def test_parameters_reach_the_server():
    with served(ScriptedBackend(["Hi."])) as server:
        model = model_over("asymspec", server.url, max_tokens=9, top_p=0.5)
        tools = [Echo()]
        model.generate(USER, tools_to_call_from=tools, seed=3, parallel_tool_calls=False, cache_salt="mine")
    ((body, _, _),) = chats(server)
    sent = {name: body[name] for name in ("max_tokens", "top_p", "seed", "parallel_tool_calls", "cache_salt")}
    assert sent == {
        "max_tokens": 9,
        "top_p": 0.5,
        "seed": 3,
        "parallel_tool_calls": False,
        "cache_salt": "mine",
    }
