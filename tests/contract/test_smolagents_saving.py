"""Saving and loading agents: no secrets, no context, no live objects."""

import json

import pytest
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent
from smolagents.models import MODEL_REGISTRY
from smolagents.utils import AgentGenerationError

from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from smolagents_asymspec import AsymSpecModel, RoutedModel
from tests.contract.agents import Custom, FakeClient

USER = [{"role": "user", "content": "Hello."}]
FINAL = json.dumps({"name": "final_answer", "arguments": {"answer": "done"}})
SECRET = "sk-do-not-save-me"


def asymspec(replies=("Hi.",), **kwargs):
    backend = ScriptedBackend(replies)
    return AsymSpecModel(backend, **kwargs), backend


def saving_agent(model, agent_class=ToolCallingAgent):
    return agent_class([], model, name="saved", description="An agent.", max_steps=3, verbosity_level=-1)


def both_models():
    secrets = {"api_key": SECRET, "extra_headers": {"Authorization": f"Bearer {SECRET}"}, "temperature": 0}
    return [
        AsymSpecModel(
            ScriptedBackend([FINAL], model="big"),
            model_id="mine",
            options=AsymSpecOptions.of(beta=1.5),
            max_tokens=12,
            extra_body={"documents": ["a private document"]},
            **secrets,
        ),
        RoutedModel(
            OpenAIModel("m", api_key=SECRET, client=FakeClient(), extra_headers={"Authorization": SECRET}),
            ContextRouter(ViewPolicy(keep_last=3, protected=(r"\d+",), tool_kinds={"read": "log"})),
        ),
    ]


@pytest.mark.parametrize("model", both_models(), ids=["asymspec", "routed"])
@pytest.mark.parametrize("agent_class", [ToolCallingAgent, CodeAgent])
def test_a_saved_agent_holds_no_secret_no_context_and_no_live_object(model, agent_class, tmp_path, capsys):
    running = saving_agent(model, agent_class)
    if agent_class is ToolCallingAgent:
        running.run("A private task.")
    running.save(tmp_path)
    saved = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET not in saved
    assert "private" not in saved
    assert " object at 0x" not in saved
    model_data = json.loads((tmp_path / "agent.json").read_text())["model"]
    assert model_data["class"] == type(model).__name__
    assert capsys.readouterr()


def test_a_saved_agent_loads_and_runs_once_its_backend_is_back(tmp_path):
    saving_agent(both_models()[0]).save(tmp_path)
    loaded = ToolCallingAgent.from_folder(tmp_path, verbosity_level=-1)
    model = loaded.model
    assert (model.model_id, model.options.beta, model.kwargs) == (
        "mine",
        1.5,
        {"max_tokens": 12, "temperature": 0},
    )
    with pytest.raises(AgentGenerationError, match=r"ScriptedBackend .* not connected"):
        loaded.run("Go.")
    assert model.to_dict() == both_models()[0].to_dict()
    model.backend = ScriptedBackend([FINAL])
    assert loaded.run("Go.") == "done"


def test_a_saved_agent_loads_with_a_model_at_hand(tmp_path):
    saving_agent(both_models()[0]).save(tmp_path)
    model, _ = asymspec([FINAL])
    assert ToolCallingAgent.from_folder(tmp_path, model=model, verbosity_level=-1).run("Go.") == "done"


def test_a_saved_wrapper_brings_back_its_policy_and_its_inner_model():
    MODEL_REGISTRY["Custom"] = Custom
    try:
        data = json.loads(json.dumps(RoutedModel(Custom(), ContextRouter(ViewPolicy(keep_last=5))).to_dict()))
        data["inner"]["data"] = {}
        model = RoutedModel.from_dict(data)
    finally:
        del MODEL_REGISTRY["Custom"]
    assert isinstance(model.inner, Custom)
    assert model.routing.router.policy == ViewPolicy(keep_last=5)
    unknown = RoutedModel.from_dict(data)
    with pytest.raises(
        ConfigurationError, match=r"Custom of a saved model cannot be made again .*not registered"
    ):
        unknown.generate(USER)
    assert RoutedModel.from_dict(data, inner=Custom()).model_id == "custom"
    with pytest.raises(ConfigurationError, match="policy of a saved model"):
        RoutedModel.from_dict({**data, "policy": {"unknown": 1}})


def test_from_dict_takes_a_backend_and_a_router():
    router = ContextRouter()
    model = AsymSpecModel.from_dict(
        both_models()[0].to_dict(), backend=ScriptedBackend(["Hi."]), router=router
    )
    assert model.generate(USER).content == "Hi."
    assert model.routing.router is router


def test_importing_the_package_registers_its_models():
    assert MODEL_REGISTRY["AsymSpecModel"] is AsymSpecModel
    assert MODEL_REGISTRY["RoutedModel"] is RoutedModel
