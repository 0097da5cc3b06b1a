"""RoutedModel around an OpenAIModel that takes both views to a server: what it adds, keeps and refuses."""

import json
import threading
from dataclasses import replace

import pytest
from PIL import Image
from smolagents import OpenAIModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.backends import Capabilities
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import ConfigurationError, ConnectionFailedError, NotAsymSpecError
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest, Edit
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from smolagents_asymspec import RoutedModel
from tests.contract.agents import Custom, Echo, FakeClient, Report, both_ways
from tests.contract.servers import served, served_app

LONG = "Observation:\n" + "\n".join(f"line {number} of a long output" for number in range(2_000))


def text(role, content):
    return {"role": role, "content": [{"type": "text", "text": content}]}


USER = [text("user", "Hello.")]
CONVERSATION = [
    text("system", "You read."),
    text("user", "Read it."),
    text("assistant", "Calling tools:\n[]"),
    text("tool-response", LONG),
    text("user", "And now?"),
]


def routed(url, router=None, options=None, **kwargs):
    inner = OpenAIModel("scripted", api_base=url, api_key="key", **kwargs)
    return RoutedModel(inner, router, options=options or AsymSpecOptions())


def sent(server):
    (body,) = [body for body in server.bodies if body.pop("path") == "/v1/chat/completions"]
    return body


def views(body):
    full = parse_messages(body["messages"])
    return full, AsymSpecRequest.of(**body["asymspec"]).compressed_messages(full)


@pytest.mark.parametrize(
    "prepared",
    [{}, {"flatten_messages_as_text": True}, {"custom_role_conversions": {"tool-response": "assistant"}}],
    ids=["parts", "flat", "roles"],
)
def test_the_edits_fit_the_messages_as_the_inner_model_prepares_them(prepared):
    with served(ScriptedBackend(["Hi."])) as server:
        model = routed(server.url, **prepared)
        model.generate(CONVERSATION)
        alone = model.inner._prepare_completion_kwargs(
            CONVERSATION, custom_role_conversions=model.inner.custom_role_conversions
        )
    body = sent(server)
    assert body["messages"] == json.loads(json.dumps(alone["messages"]))  # the full view, as without us
    assert "messages" not in body["asymspec"]
    full, compressed = views(body)
    (edit,) = body["asymspec"]["edits"]
    assert LONG in full[edit["message"]].texts()[0]
    assert len(compressed[edit["message"]].texts()[0]) < len(LONG) / 2


def test_what_the_user_sends_besides_is_kept():
    with served(ScriptedBackend(["Hi."])) as server:
        model = routed(server.url, extra_body={"cache_salt": "tenant"}, max_tokens=7)
        model.generate(USER, seed=3)
        body = sent(server)
    assert (body["cache_salt"], body["max_tokens"], body["seed"]) == ("tenant", 7, 3)
    assert body["asymspec"] == {"version": 1, "edits": []}


def test_a_calls_extra_body_is_kept_too():
    with served(ScriptedBackend(["Hi."])) as server:
        routed(server.url).generate(USER, extra_body={"session_id": "mine"})
    assert sent(server)["session_id"] == "mine"


def test_the_inner_model_stays_as_it_was():
    with served(ScriptedBackend(["Hi.", "Hi."])) as server:
        model = routed(server.url, extra_body={"cache_salt": "tenant"})
        client, kwargs = model.inner.client, dict(model.inner.kwargs)
        model.generate(CONVERSATION)
        assert (model.inner.client, model.inner.kwargs) == (client, kwargs)
        model.inner.generate(USER)
    assert "asymspec" not in server.bodies[-1]


@pytest.mark.parametrize(
    ("given", "temperature"), [({}, 0), ({"temperature": None}, 0), ({"temperature": 0.7}, 0.7)]
)
def test_an_unset_temperature_is_sent_as_0(given, temperature):
    with served(ScriptedBackend(["Hi."])) as server:
        routed(server.url, options=AsymSpecOptions.of(on_sampling="greedy"), **given).generate(USER)
    assert sent(server)["temperature"] == temperature


def test_an_asymspec_object_of_the_users_own_is_refused():
    with pytest.raises(ConfigurationError, match=r"extra_body\.asymspec"):
        routed("http://127.0.0.1:1/v1", extra_body={"asymspec": {}})
    with (
        served(ScriptedBackend([])) as server,
        pytest.raises(ConfigurationError, match=r"extra_body\.asymspec"),
    ):
        routed(server.url).generate(USER, extra_body={"asymspec": {}})


def test_other_inner_models_and_options_are_refused():
    with pytest.raises(ConfigurationError, match="inner=Custom: only an OpenAIModel"):
        RoutedModel(Custom(), options=AsymSpecOptions())
    with pytest.raises(ConfigurationError, match="options must be AsymSpecOptions, not dict"):
        RoutedModel(Custom(), options={"gamma": 1})
    with pytest.raises(ConfigurationError, match="no base_url"):
        RoutedModel(OpenAIModel("m", client=FakeClient()), options=AsymSpecOptions())


def test_tools_by_keyword_have_no_signatures():
    schema = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
    }
    with served(ScriptedBackend(["Hi."])) as server:
        routed(server.url).generate(USER, tools_to_call_from=[Report(), Echo()], tools=[schema])
    body = sent(server)
    assert body["tools"] == [schema]
    assert "tools" not in body["asymspec"]


class Broken:
    def route(self, messages, tools=None, *, tool_docs=()):
        raise RuntimeError("broken")


def test_a_failing_router_sends_the_full_context_as_both_views():
    with served(ScriptedBackend(["Hi."])) as server:
        assert routed(server.url, Broken()).generate(CONVERSATION).content == "Hi."
    body = sent(server)
    assert body["asymspec"] == {"version": 1, "edits": []}
    assert any(LONG in "".join(message.texts()) for message in views(body)[0])


def test_a_full_view_that_the_router_cut_is_sent_cut():
    router = ContextRouter(ViewPolicy(max_drafter_tokens=4_000))
    with served(ScriptedBackend(["Hi."])) as server:
        routed(server.url, router).generate(CONVERSATION)
    full, compressed = views(sent(server))
    length = [sum(len(text) for message in view for text in message.texts()) for view in (full, compressed)]
    assert length[1] < length[0] < len(LONG)


class Describing:
    """Routes the image, the only part of the last message, to a description of it."""

    def route(self, messages, tools=None, *, tool_docs=()):
        seen = Attachments(AttachmentPolicy(drafter_sees="images"))
        made = ContextRouter(attachments=seen).route(messages, tools)
        edit = Edit(message=len(messages) - 1, part=0, text="a red square")
        return replace(made, edits=(edit,))


@both_ways
@pytest.mark.parametrize(
    ("asked", "whole"),
    [
        ("system", None),
        ("user", [text("user", "What is it?\na red square")]),  # merged where both are text
    ],
    ids=["apart", "merged"],
)
def test_a_view_is_sent_whole_only_where_edits_cannot_express_it(asked, whole, stream):
    image = {"role": "user", "content": [{"type": "image", "image": Image.new("RGB", (4, 4), "red")}]}
    messages = [text(asked, "What is it?"), image]
    with served(ScriptedBackend(["Red."])) as server:
        model = routed(server.url, Describing())
        _ = list(model.generate_stream(messages)) if stream else model.generate(messages)
    body = sent(server)
    assert body["messages"][-1]["content"][-1]["image_url"]["url"].startswith("data:image/png;base64,")
    edits = [{"message": 1, "part": 0, "text": "a red square"}] if whole is None else None
    assert (body["asymspec"].get("messages"), body["asymspec"].get("edits")) == (whole, edits)


def test_the_default_router_keeps_to_the_servers_limits():
    class Limited(ScriptedBackend):
        @property
        def capabilities(self):
            return Capabilities("scripted", "small", ("asymspec",), 9_000, 20_000)

    with served(Limited([])) as server:
        policy = routed(server.url, max_tokens=100).routing.router.policy
    assert (policy.max_verifier_tokens, policy.max_drafter_tokens) == (9_000 - 164, 20_000 - 164)


def plain_app(*, asymspec=None, calls=None):
    """A server that answers plainly; `asymspec` is what it says of itself."""

    async def chat(request):
        body = await request.json()
        if body.get("stream"):
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            choices = [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]
            data = f"data: {json.dumps({**chunk, 'choices': choices})}\n\ndata: [DONE]\n\n"
            return Response(data, media_type="text/event-stream")
        message = {"role": "assistant", "content": "Hi."}
        return JSONResponse(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )

    async def info(request):
        return JSONResponse(asymspec)

    routes = [Route("/v1/chat/completions", chat, methods=["POST"])]
    return Starlette(routes=[*routes, *([Route("/v1/asymspec", info)] if asymspec is not None else [])])


@pytest.mark.parametrize(
    "asymspec",
    [None, {"version": 1, "verifier": "m", "modes": []}, {"version": 99}],
    ids=["none", "no mode", "version"],
)
@pytest.mark.parametrize("router", [None, ContextRouter()], ids=["own router", "given router"])
def test_a_server_that_is_not_asymspec_is_told_before_it_gets_a_prompt(asymspec, router):
    with served_app(plain_app(asymspec=asymspec)) as server:
        with pytest.raises(NotAsymSpecError, match="leave options out"):
            routed(server.url, router).generate(USER)
        assert "/v1/chat/completions" not in server.paths
        inner = OpenAIModel("m", api_base=server.url, api_key="key")
        assert (
            RoutedModel(inner).generate(USER).content == "Hi."
        )  # without options: the compressed view alone


@both_ways
def test_an_answer_without_a_report_is_an_error(stream):
    says = {"version": 1, "verifier": "m", "modes": ["asymspec"]}
    with served_app(plain_app(asymspec=says)) as server:
        model = routed(server.url)
        with pytest.raises(NotAsymSpecError, match="without a report"):
            _ = list(model.generate_stream(USER)) if stream else model.generate(USER)


def test_a_server_that_is_not_there_is_an_error_that_says_so():
    with served(ScriptedBackend([])) as server:
        pass
    model = routed(server.url, ContextRouter(), client_kwargs={"max_retries": 0})  # asks nothing yet
    with pytest.raises(ConnectionFailedError, match="is the server running"):
        model.generate(USER)


def test_threads_do_not_mix_their_views():
    names = [f"caller {number}" for number in range(8)]
    with served(ScriptedBackend(lambda request: request.messages[0].texts()[0])) as server:
        model = routed(server.url)
        answers = {}

        def ask(name):
            answers[name] = model.generate([text("user", f"{name} asks.\n{name}: {LONG}")]).content

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(answers[name].startswith(name) for name in names)
        bodies = [body for body in server.bodies if body.pop("path") == "/v1/chat/completions"]
    assert len(bodies) == len(names)
    for body in bodies:
        full, compressed = views(body)
        assert full[0].texts()[0][:9] == compressed[0].texts()[0][:9]


def test_it_is_saved_with_its_options_and_without_its_key():
    router = ContextRouter(ViewPolicy(keep_last=3))
    model = routed("http://127.0.0.1:1/v1", router, AsymSpecOptions.of(gamma=0.7))
    saved = json.loads(json.dumps(model.to_dict()))
    assert "key" not in json.dumps(saved["inner"])
    assert saved["options"] == {"gamma": 0.7}
    inner = OpenAIModel("other", api_base="http://127.0.0.1:1/v1", api_key="key")
    loaded = RoutedModel.from_dict(saved, inner=inner)
    assert loaded.options == AsymSpecOptions.of(gamma=0.7)
    assert loaded.routing.router.policy.keep_last == 3


def test_a_loaded_one_takes_another_inner_model_later(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    saved = routed("http://127.0.0.1:1/v1", ContextRouter()).to_dict()
    loaded = RoutedModel.from_dict(saved)  # no key: smolagents cannot make the OpenAIModel
    with pytest.raises(ConfigurationError, match=r"set model\.inner"):
        loaded.generate(USER)
    with served(ScriptedBackend(["Hi."])) as server:
        loaded.inner = OpenAIModel("scripted", api_base=server.url, api_key="key")
        assert loaded.generate(USER).content == "Hi."
    assert sent(server)["asymspec"]["version"] == 1
