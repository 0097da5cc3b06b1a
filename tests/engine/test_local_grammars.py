"""LocalBackend under response_format and tool_choice: what the caller gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.backends import ChatResponse
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.errors import ConfigurationError

from .tiny_folder import FULL, SHORT, WEATHER, ask, random_backend, writing_backend

KIND = {"enum": ["red", "green"]}
FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"kind": KIND, "tags": {"type": "array", "items": KIND, "maxItems": 2}},
            "required": ["kind", "tags"],
            "additionalProperties": False,
        },
    },
}
PAINT = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {"type": "object", "properties": {"colour": KIND}, "required": ["colour"]},
    },
}
WAIT = {"type": "function", "function": {"name": "wait"}}
MANY = 300


@pytest.fixture
def backend() -> LocalBackend:
    return random_backend()


def arguments(response: ChatResponse) -> list[tuple[str, Any]]:
    functions = [call.function for call in response.tool_calls]
    return [(f.name, json.loads(f.arguments)) for f in functions if f is not None]


@pytest.mark.parametrize("edits", [None, SHORT, ()], ids=["plain", "asymspec", "identical views"])
def test_the_content_is_json_of_the_schema(backend: LocalBackend, edits: Any) -> None:
    response = backend.generate(ask(edits=edits, response_format=FORM, max_tokens=MANY))
    assert (response.finish_reason, response.tool_calls) == ("stop", ())
    found = json.loads(response.content)
    assert list(found) == ["kind", "tags"]
    assert {found["kind"], *found["tags"]} <= {"red", "green"}
    assert response.content == response.raw_text
    if edits is not None:
        assert response.report is not None
        assert response.report.fallback == (None if edits else "identical_views")


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_keeps_to_it(backend: LocalBackend, arm: str) -> None:
    request = ask(response_format=FORM, max_tokens=MANY)
    assert json.loads(backend.with_arm(arm).generate(request).content)["kind"] in ("red", "green")


def test_sampled_answers_keep_to_it(backend: LocalBackend) -> None:
    texts = {
        backend.generate(
            ask(edits=None, response_format=FORM, temperature=1.5, seed=seed, max_tokens=MANY)
        ).content
        for seed in range(5)
    }
    assert len(texts) > 1
    assert {json.loads(text)["kind"] for text in texts} == {"red", "green"}


def test_max_tokens_may_cut_the_answer(backend: LocalBackend) -> None:
    whole = backend.generate(ask(response_format=FORM, max_tokens=MANY)).content
    response = backend.generate(ask(response_format=FORM, max_tokens=9))
    assert (response.finish_reason, response.content) == ("length", whole[:9])


@pytest.mark.parametrize("edits", [None, SHORT], ids=["plain", "asymspec"])
@pytest.mark.parametrize("name", ["paint", "wait"])
def test_a_named_tool_is_called_once(backend: LocalBackend, edits: Any, name: str) -> None:
    choice = {"type": "function", "function": {"name": name}}
    response = backend.generate(ask(edits=edits, tools=(PAINT, WAIT), tool_choice=choice, max_tokens=MANY))
    assert (response.content, response.finish_reason) == ("", "tool_calls")
    ((called, given),) = arguments(response)
    assert called == name
    assert given in ([{}] if name == "wait" else [{"colour": "red"}, {"colour": "green"}])


@pytest.mark.parametrize("edits", [None, SHORT], ids=["plain", "asymspec"])
def test_a_required_call_is_made(backend: LocalBackend, edits: Any) -> None:
    fields = {"edits": edits, "tools": (PAINT, WAIT), "tool_choice": "required", "max_tokens": MANY}
    one = backend.generate(ask(parallel_tool_calls=False, **fields))
    assert (one.content, one.finish_reason, len(one.tool_calls)) == ("", "tool_calls", 1)
    # without an EOS token a random model never has enough
    many = backend.generate(ask(**{**fields, "tools": (WAIT,), "max_tokens": 260}))
    assert {name for name, _ in arguments(many)} == {"wait"}
    assert len(many.tool_calls) > 1


def test_the_tools_own_schemas_are_enforced_whatever_the_verifier_reads(backend: LocalBackend) -> None:
    short = {"tools": [{"type": "function", "function": {"name": "paint"}}]}
    response = backend.generate(
        ask(tools=(PAINT,), tool_choice="required", parallel_tool_calls=False, options=short, max_tokens=MANY)
    )
    assert arguments(response) in ([("paint", {"colour": "red"})], [("paint", {"colour": "green"})])


def test_what_the_model_wants_to_say_stands_where_the_grammar_lets_it() -> None:
    """A model that writes calls of its own accord writes the same one under a grammar, token by token."""
    pieces = ['<tool_call>\n{"name": "paint", "arg', 'uments": {"colour": "gr', 'een"}}\n</tool_call>']
    backend = writing_backend(pieces)
    for edits in (None, SHORT):
        free = backend.generate(ask(edits=edits, tools=(PAINT,)))
        forced = backend.generate(ask(edits=edits, tools=(PAINT,), tool_choice="required"))
        assert arguments(free) == arguments(forced) == [("paint", {"colour": "green"})]
        assert [s.text for s in forced.segments] == [s.text for s in free.segments] == pieces
        assert forced.finish_reason == free.finish_reason == "tool_calls"
        assert forced.usage.completion_tokens == 4  # EOS ends it, as further calls might have come
        single = backend.generate(
            ask(edits=edits, tools=(PAINT,), tool_choice="required", parallel_tool_calls=False)
        )
        assert (single.usage.completion_tokens, arguments(single)) == (3, arguments(free))


def test_streams_give_the_same(backend: LocalBackend) -> None:
    request = ask(tools=(PAINT, WAIT), tool_choice="required", parallel_tool_calls=False, max_tokens=MANY)
    deltas = list(backend.stream(request))
    assert "".join(delta.content for delta in deltas) == ""
    assert deltas[-1].tool_calls == backend.generate(request).tool_calls


def test_a_grammar_is_compiled_once_for_all_arms(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    compile_one = backend.engine.grammars._compile
    monkeypatch.setattr(
        backend.engine.grammars, "_compile", lambda source: made.append(source) or compile_one(source)
    )
    for arm in ("asymspec", "floor", "drafter"):
        backend.with_arm(arm).generate(ask(response_format=FORM, max_tokens=3))
    assert len(made) == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tool_choice": "required"}, "^tool_choice='required' needs tools"),
        ({"tools": (WEATHER,), "tool_choice": {"type": "function", "function": {"name": "x"}}},
         "^tool_choice names 'x', which is no tool here; tools: weather$"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "strang"}}}},
         r"^response_format\.json_schema\.schema cannot be enforced: .*strang"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("edits", [None, SHORT], ids=["plain", "asymspec"])
def test_what_cannot_be_is_refused_before_a_model_runs(
    backend: LocalBackend, fields: Any, text: str, edits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.engine, "decode", None)
    with pytest.raises(ConfigurationError, match=text):
        backend.stream(ask(FULL, edits=edits, **fields))
