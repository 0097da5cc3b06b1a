"""The AsymSpec wire: options and their ranges, requests, edits, reports."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from asymspec_agents.decoding.modes import MODES, Delta, Gate, Rule
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import (
    AsymSpecOptions,
    AsymSpecReport,
    AsymSpecRequest,
)

# Options


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("beta", [-0.1, 4.1]),
        ("gamma", [-0.1, 4.1]),
        ("num_draft_tokens", [0, 9, -1, 1.5, 2.0]),
        ("plausibility", [-0.1, 1, 1.5]),
        ("slack", [0, -1, 1.1]),
        ("scale", [0, -1]),
        ("agreement", [1, 0]),
        ("bonus", ["Rule", 1]),
        ("identical_views", ["greedy", False]),
        ("on_unsupported", ["ignore"]),
        ("on_sampling", ["sample"]),
        ("gate", ["CDA"]),
        ("delta", ["ctx"]),
        ("mode", ["nope", ""]),
    ],
)
def test_an_option_out_of_range_is_an_error_that_names_it(field: str, bad: list[Any]) -> None:
    numbers = field in {"beta", "gamma", "num_draft_tokens", "plausibility", "slack", "scale"}
    for value in [*bad, *([math.nan, math.inf, -math.inf, True, "1", None, [1]] if numbers else [5, [], {}])]:
        with pytest.raises(ConfigurationError) as caught:
            AsymSpecOptions.of(**{field: value})
        assert str(caught.value).startswith(field)
        if isinstance(value, int | float | str):
            assert f"{field}={value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "values", "limit"),
    [
        ("beta", [0, 4, 4.0], "4"),
        ("gamma", [0.0, 4], "4"),
        ("num_draft_tokens", [1, 8], "8"),
        ("plausibility", [0, 0.99], "1"),
        ("slack", [1, 1e-6], "1"),
    ],
)
def test_the_ends_of_a_range_are_as_documented(field: str, values: list[Any], limit: str) -> None:
    for value in values:
        assert getattr(AsymSpecOptions.of(**{field: value}), field) == value
    with pytest.raises(ConfigurationError) as caught:
        AsymSpecOptions.of(**{field: 100})
    assert str(caught.value).endswith(limit)


def test_unknown_options_are_rejected() -> None:
    for name in ("num_speculative_tokens", "not-a-name", "edits"):
        with pytest.raises(ConfigurationError) as caught:
            AsymSpecOptions.of(**{name: 1})
        assert str(caught.value).startswith(f"{name}=1")


def test_the_defaults_are_the_documented_ones() -> None:
    options = AsymSpecOptions()
    assert options.mode_name == "asymspec"
    assert options.rule() == Rule("cda", "context", beta=1.0, gamma=0.5)
    assert (options.num_draft_tokens, options.bonus, options.identical_views) == (2, "rule", "strict")
    assert (options.on_unsupported, options.on_sampling) == ("error", "error")


def test_the_papers_configuration_can_still_be_varied() -> None:
    paper = AsymSpecOptions.paper(num_draft_tokens=4)
    assert (paper.bonus, paper.identical_views, paper.num_draft_tokens) == ("verifier", "gate", 4)
    assert AsymSpecOptions.paper(bonus="none").bonus == "none"
    request = AsymSpecRequest.paper(edits=())
    assert isinstance(request, AsymSpecRequest)
    with pytest.raises(ConfigurationError, match="beta=7"):
        AsymSpecOptions.paper(beta=7)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_by_name_is_its_pair(mode: str) -> None:
    options = AsymSpecOptions.of(mode=mode, beta=2, gamma=1.5, slack=0.5, plausibility=0.1, agreement=True)
    pair = MODES[mode]
    assert options.mode_name == mode
    assert options.rule() == Rule(pair.gate, pair.delta, 2, 1.5, 0.5, pair.scale, 0.1, True)


def test_scale_belongs_to_the_scaled_mode() -> None:
    assert AsymSpecOptions.of(mode="scaled", scale=2.5).rule().scale == 2.5
    assert AsymSpecOptions.of(scale=2.5).rule().scale is None


def test_gate_and_delta_by_name() -> None:
    for gate in get_args(Gate):
        for delta in get_args(Delta):
            options = AsymSpecOptions.of(gate=gate, delta=delta)
            assert options.mode_name == f"{gate}+{delta}"
            assert options.rule() == Rule(gate, delta)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gate": "cda"}, "together"),
        ({"delta": "none"}, "together"),
        ({"gate": "cda", "delta": "none", "mode": "asymspec"}, "not both"),
        ({"mode": "product", "delta": "full"}, "together"),
    ],
)
def test_half_a_pair_or_a_pair_beside_a_mode_is_an_error(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AsymSpecOptions.of(**options)


def test_options_are_frozen() -> None:
    with pytest.raises(ValidationError):
        AsymSpecOptions().beta = 2.0


# Requests


def test_a_request_has_exactly_one_compressed_view() -> None:
    message = {"role": "user", "content": "x"}
    for views in ({}, {"edits": [], "messages": [message]}, {"edits": None, "messages": None}):
        with pytest.raises(ConfigurationError, match="exactly one of edits and messages"):
            AsymSpecRequest.of(**views)
    full = parse_messages([message])
    assert AsymSpecRequest.of(edits=[]).compressed_messages(full) == full
    other = [{"role": "user", "content": "y"}]
    assert AsymSpecRequest.of(messages=other).compressed_messages(full) == parse_messages(other)
    edited = AsymSpecRequest.of(edits=[{"message": 0, "text": "z"}]).compressed_messages(full)
    assert edited == parse_messages([{"role": "user", "content": "z"}])


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"edits": [{"message": -1, "text": "x"}]}, "edits[0].message=-1"),
        ({"edits": [{"message": True, "text": "x"}]}, "edits[0].message=True"),
        ({"edits": [{"message": 0, "part": -2, "text": "x"}]}, "edits[0].part=-2"),
        ({"edits": [{"message": 0, "text": None}]}, "edits[0].text=None"),
        ({"edits": [{"message": 0}]}, "edits[0].text"),
        ({"edits": [{"message": 0, "text": "", "extra": 1}]}, "edits[0].extra=1"),
        ({"edits": {"message": 0}}, "edits"),
        ({"messages": [{"content": "the secret"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": ["the secret"]}]}, "messages[0].content[0]"),
        ({"edits": [], "tools": [{"function": {"name": 1}}]}, "tools[0].function.name=1"),
        ({"edits": [], "version": 2}, "version=2"),
        ({"edits": [], "beta": "x" * 10_000}, "beta"),
    ],
)
def test_a_malformed_request_names_the_place_and_no_content(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AsymSpecRequest.of(**fields)
    assert str(caught.value).startswith(where)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 300


text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=10)
options = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(sorted(MODES)),
        "beta": st.floats(0, 4),
        "num_draft_tokens": st.integers(1, 8),
        "agreement": st.booleans(),
        "bonus": st.sampled_from(["rule", "verifier", "none"]),
    },
)
views = st.one_of(
    st.fixed_dictionaries(
        {
            "edits": st.lists(
                st.fixed_dictionaries(
                    {"message": st.integers(0, 9), "text": text}, optional={"part": st.integers(0, 3)}
                ),
                max_size=3,
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "messages": st.lists(
                st.fixed_dictionaries(
                    {"role": text, "content": text | st.lists(st.just({"type": "text", "text": "t", "x": 1}))}
                ),
                max_size=2,
            )
        }
    ),
)
tool_views: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.just(
    {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}
)


@settings(max_examples=150, deadline=None)
@given(options, views, tool_views)
def test_a_request_comes_back_as_it_was_sent(
    given_options: dict[str, Any], view: dict[str, Any], tools: dict[str, Any]
) -> None:
    body = {**given_options, **view, **tools}
    request = AsymSpecRequest.of(**body)
    assert request.wire() == {"version": 1, **body}
    over_the_line = json.loads(json.dumps(request.wire()))
    assert AsymSpecRequest.of(**over_the_line) == request


# Reports and schemas


def test_a_report_keeps_fields_of_later_versions() -> None:
    body = {"version": 1, "mode": "strict", "cached_tokens": {"verifier": 3, "draft2": 1}, "new": [1]}
    report = AsymSpecReport.model_validate(json.loads(json.dumps(body)))
    assert report.cached_tokens.verifier == 3
    assert report.model_dump(exclude_unset=True) == body


def test_a_report_has_every_field_of_the_wire() -> None:
    assert json.loads(AsymSpecReport().model_dump_json()) == {
        "version": 1,
        "mode": "asymspec",
        "verifier_prompt_tokens": 0,
        "drafter_prompt_tokens": 0,
        "cached_tokens": {"verifier": 0, "base": 0, "drafter": 0},
        "blocks": 0,
        "drafted": 0,
        "accepted": 0,
        "fused": 0,
        "bonus": 0,
        "accepted_per_position": [],
        "mean_divergence": 0.0,
        "fallback": None,
        "images": 0,
        "cross_family": None,
    }


def test_request_and_report_describe_themselves_as_json_schema() -> None:
    schema = AsymSpecRequest.model_json_schema()
    assert schema["additionalProperties"] is False
    assert schema["properties"]["beta"]["maximum"] == 4
    assert schema["properties"]["num_draft_tokens"]["maximum"] == 8
    assert "accepted_per_position" in AsymSpecReport.model_json_schema()["properties"]
