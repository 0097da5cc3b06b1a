"""What a tool's results are, where the policy says it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents import ContextRouter
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.views import ViewPolicy
from tests.routing import FirstChars

LINES = "\n".join(f"row {number}, with words" for number in range(900))


def messages(tool: str, text: str) -> list[dict[str, Any]]:
    function = {"name": tool, "arguments": "{}"}
    call = {"id": "1", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Which rows are there?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": text},
    ]


def shown(policy: ViewPolicy, tool: str = "read", text: str = LINES) -> str:
    return ContextRouter(policy).route(messages(tool, text)).compressed[2].texts()[0]


def test_a_tools_kind_goes_before_what_the_content_looks_like() -> None:
    policy = ViewPolicy(tool_kinds={"read": "log"})
    assert " like it …]" in shown(policy)
    assert " like it …]" not in shown(policy, "other")


def test_verbatim_results_are_shortened_by_a_budget_only() -> None:
    assert shown(ViewPolicy(tool_kinds={"read": "verbatim"})) == LINES
    budget = ViewPolicy(tool_kinds={"read": "verbatim"}, max_verifier_tokens=2_000)
    assert len(shown(budget)) < len(LINES)


def test_policies_with_kinds_are_values() -> None:
    policy = ViewPolicy(tool_kinds={"read": "json"})
    assert policy == ViewPolicy(tool_kinds=(("read", "json"),))
    assert hash(policy) == hash(ViewPolicy(tool_kinds=(("read", "json"),)))


@pytest.mark.parametrize("wrong", [{"read": "xml"}, {1: "json"}, (("read",),), ["read"], "json"])
def test_wrong_kinds_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool_kinds"):
        ViewPolicy(tool_kinds=wrong)


def test_a_compressor_without_kinds_is_refused_at_once() -> None:
    policy = ViewPolicy(tool_kinds={"read": "json"})
    with pytest.raises(ConfigurationError, match="compress_as"):
        ContextRouter(policy, compressor=HeadTail())
    ContextRouter(ViewPolicy(tool_kinds={"read": "verbatim"}), compressor=FirstChars())


def test_json_stays_json_by_the_tools_word() -> None:
    text = json.dumps([{"id": number, "text": "words " * 5} for number in range(300)])
    json.loads(shown(ViewPolicy(tool_kinds={"read": "json"}), text=text))
