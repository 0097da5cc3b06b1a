"""Keyword arguments become request fields in smolagents' order of priority."""

import pytest
from smolagents import REMOVE_PARAMETER, FinalAnswerTool

from asymspec_agents.errors import ConfigurationError
from smolagents_asymspec.request import answer_limit, check_parameters, request_parameters, stop_strings


def parameters(constructed=None, called=None, stop=None, response_format=None, tools=None):
    return request_parameters(
        constructed or {},
        called or {},
        stop_sequences=stop,
        response_format=response_format,
        tools_to_call_from=tools,
    )


def test_construction_outranks_the_call_which_outranks_specific_parameters():
    made = parameters(
        constructed={"temperature": 0.1, "tool_choice": "auto"},
        called={"temperature": 0.9, "stop": ["from call"], "response_format": {"type": "json_object"}},
        stop=["specific"],
        response_format={"type": "text"},
        tools=[FinalAnswerTool()],
    )
    assert made["temperature"] == 0.1
    assert made["tool_choice"] == "auto"
    assert made["stop"] == ("from call",)
    assert made["response_format"] == {"type": "json_object"}


def test_remove_parameter_takes_a_parameter_out():
    made = parameters(
        constructed={"stop": REMOVE_PARAMETER, "seed": REMOVE_PARAMETER}, called={"seed": 1}, stop=["x"]
    )
    assert made["stop"] == ()
    assert made["extra"] == {}


def test_a_choice_is_sent_with_tools_only_and_never_of_its_own():
    made = parameters(tools=[FinalAnswerTool()])
    assert made["tools"][0]["function"]["name"] == "final_answer"
    assert "tool_choice" not in made
    assert parameters(called={"tool_choice": "auto"}, tools=[FinalAnswerTool()])["tool_choice"] == "auto"
    for tools in (None, []):
        made = parameters(constructed={"tool_choice": "required"}, tools=tools)
        assert "tool_choice" not in made
        assert "tools" not in made


def test_unknown_parameters_are_extra_and_extra_body_is_merged_key_by_key():
    made = parameters(
        constructed={"extra_body": {"cache_salt": "ours", "top_k": 1}, "seed": 1},
        called={"extra_body": {"top_k": 2, "min_p": 0.1, "session_id": "s"}, "top_p": 0.5},
    )
    assert made["cache_salt"] == "ours"
    assert made["session_id"] == "s"
    assert (made["seed"], made["top_p"]) == (1, 0.5)
    assert made["extra"] == {"top_k": 1, "min_p": 0.1}


def test_parallel_calls_are_a_matter_of_tools():
    assert parameters(constructed={"parallel_tool_calls": False}, tools=[FinalAnswerTool()])[
        "parallel_tool_calls"
    ] is False  # fmt: skip
    assert "parallel_tool_calls" not in parameters(constructed={"parallel_tool_calls": False})


def test_the_answers_limit_is_found_under_each_of_its_names():
    assert answer_limit({}) is None
    assert answer_limit({"max_tokens": REMOVE_PARAMETER, "max_new_tokens": 5}) == 5
    assert answer_limit({"max_tokens": 4, "max_completion_tokens": 5}) == 4


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_new_tokens"])
def test_other_names_of_max_tokens_are_understood(name):
    assert parameters(called={name: 7})["max_tokens"] == 7
    assert parameters(constructed={"max_tokens": 5}, called={name: 7})["max_tokens"] == 5


def test_smolagents_own_switches_are_not_sent():
    assert parameters(called={"flatten_messages_as_text": True})["extra"] == {}


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10"])
def test_a_bad_max_tokens_is_refused_by_name_and_value(value):
    with pytest.raises(ConfigurationError, match=r"max_tokens=.* at least 1"):
        check_parameters({"max_tokens": value})


@pytest.mark.parametrize(
    "values", [{"asymspec": {}}, {"extra_body": {"asymspec": {}}}, {"messages": []}, {"model": "m"}]
)
def test_what_the_model_itself_sends_cannot_be_passed(values):
    with pytest.raises(ConfigurationError, match="cannot be passed"):
        parameters(called=values)


@pytest.mark.parametrize(
    ("stop", "expected"), [(None, ()), ("end", ("end",)), (["a", "", "b"], ("a", "b")), ([""], ())]
)
def test_stop_strings(stop, expected):
    assert stop_strings(stop) == expected
