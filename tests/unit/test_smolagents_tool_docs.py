"""Tool documentation in system prompts: known from tools, or recognised in the text."""

from typing import ClassVar

import pytest
from smolagents import CodeAgent, Tool, ToolCallingAgent

from asymspec_agents.messages import Message
from smolagents_asymspec._compat import agent_tools
from smolagents_asymspec.tool_docs import docs_in_system_prompts, docs_of_tools


class Flights(Tool):
    name = "flights"
    description = (
        "Finds flights.\n\nUse ISO dates:\n- from: the first day, as in 2026-11-29\n- to: the last day\n\n"
        'Example:\n    flights("OSL", "2026-11-29")'
    )
    inputs: ClassVar = {
        "city": {"type": "string", "description": "IATA code: three capitals", "enum": ["OSL", "BGO"]},
        "day": {"type": "string", "description": "A day. It's ISO 8601", "nullable": True},
    }
    output_type = "object"

    def forward(self, city: str, day: str | None = None) -> dict:
        return {}


class Weather(Tool):
    name = "weather"
    description = "Weather of a place, in a long sentence that says what nobody needs to know to call it."
    inputs: ClassVar = {"place": {"type": "string", "description": "The place\nover two lines"}}
    output_type = "string"
    output_schema: ClassVar = {"type": "object", "properties": {"degrees": {"type": "number"}}}

    def forward(self, place: str) -> str:
        return ""


class NoModel:
    model_id = "none"

    def generate(self, messages, **kwargs):
        raise AssertionError("not called")


def make(agent_class, **more):
    helper = ToolCallingAgent(
        [], NoModel(), name="helper", description="Helps with\n- this: and that\n- more.", verbosity_level=0
    )
    return agent_class([Flights(), Weather()], NoModel(), managed_agents=[helper], verbosity_level=0, **more)


AGENTS = pytest.mark.parametrize(
    "agent",
    [make(ToolCallingAgent), make(CodeAgent), make(CodeAgent, use_structured_outputs_internally=True)],
    ids=["tool calls", "code", "structured code"],
)  # fmt: skip


@AGENTS
def test_every_known_doc_of_a_template_is_in_the_prompt_and_recognised_there(agent):
    prompt = agent.system_prompt
    known = {doc.text: doc.signature for doc in docs_of_tools(agent_tools(agent)) if doc.text in prompt}
    found = {
        doc.text: doc.signature for doc in docs_in_system_prompts([Message(role="system", content=prompt)])
    }
    names = {"flights", "weather", "final_answer", "helper"}
    assert {next(n for n in names if n in doc.partition("\n")[0]) for doc in found} == names
    assert found.items() <= known.items()


@AGENTS
def test_no_prose_of_a_tool_is_left_and_names_types_and_choices_stay(agent):
    prompt = agent.system_prompt
    for doc in sorted(
        docs_in_system_prompts([Message(role="system", content=prompt)]), key=lambda d: -len(d.text)
    ):
        prompt = prompt.replace(doc.text, doc.signature)
    for prose in (
        "Finds flights",
        "ISO",
        "IATA",
        "three capitals",
        "nobody needs",
        "Helps with",
        "Long detailed",
    ):
        assert prose not in prompt
    for kept in ("flights(city", "weather(place: string)", "helper(task"):
        assert kept in prompt
    assert agent.system_prompt.endswith(prompt[-200:])


def test_signatures_say_what_is_required_and_what_may_be_chosen():
    docs = {doc.text.partition(" ")[0]: doc.signature for doc in docs_of_tools([Flights()])}
    assert docs["flights:"] == 'flights(city: "OSL"|"BGO", day?: string|null) -> object'
    assert docs["def"] == "def flights(city: string, day: string) -> object: ..."


def test_a_template_of_the_users_own_is_known_by_the_description():
    (doc,) = [doc for doc in docs_of_tools([Weather()]) if doc.text == Weather.description]
    assert doc.signature == "weather(place: string) -> string"


def test_functions_with_a_body_and_other_text_are_left_alone():
    text = 'def f(x: int) -> int:\n    """Doubles a number, explained at great length."""\n    return 2 * x\n'
    body = 'def g(x: int) -> int:\n    """Doubles.\n\n    At length.\n    """\n    return 2 * x\n'
    lists = "- one: two\n    Takes inputs: {broken\n    Returns an output of type: x\n- a: b"
    for prompt in (text, body, lists, "", "Takes inputs: {}"):
        assert docs_in_system_prompts([Message(role="system", content=prompt)]) == ()


def test_inputs_that_are_no_literal_are_left_alone():
    prompt = (
        "- f: text\n    Takes inputs: {'x': {'type': <class 'int'>}}\n    Returns an output of type: string"
    )
    assert docs_in_system_prompts([Message(role="system", content=prompt)]) == ()


def test_only_system_messages_are_searched():
    prompt = make(CodeAgent).system_prompt
    assert docs_in_system_prompts([Message(role="user", content=prompt)]) == ()


def test_schemas_and_odd_tools_have_no_docs():
    class Odd:
        name, description, inputs, output_type = "odd", None, {"x": {}}, "string"

    assert docs_of_tools([{"type": "function", "function": {"name": "f"}}, Odd()]) == ()
