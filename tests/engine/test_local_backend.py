"""LocalBackend: what a chat request becomes, and what answer and report say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, ChatResponse
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.errors import (
    ConfigurationError,
)
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecRequest
from asymspec_agents.trace import MemoryRecorder, measure

from .tiny_folder import COMPRESSED, FULL, WEATHER, ask, random_backend, writing_backend

SIGNATURE = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture
def backend() -> LocalBackend:
    return random_backend()


def ids(backend: LocalBackend, messages: Any, tools: Any = ()) -> int:
    return len(backend.template.ids(parse_messages(messages), tools))


def test_tools_that_the_template_has_no_place_for_are_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for template, is_told in (
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}", True),
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}{{ tools }}", False),
        ("{{ raise_exception('never') if messages|length < 2 else tools }}", False),  # tells nothing of tools
    ):
        backend = random_backend()
        monkeypatch.setattr(backend.engine.models["verifier"], "name", template)  # backends share the models
        monkeypatch.setattr(backend.template.tokenizer, "chat_template", template)
        caplog.clear()
        for _ in range(2):
            backend.stream(ask(tools=(WEATHER,), max_tokens=1))
        told = [record for record in caplog.records if "no place for tools" in record.message]
        assert len(told) == is_told, template
        caplog.clear()
        backend.stream(ask(max_tokens=1))
        assert not caplog.records


def test_both_views_are_read_and_reported(backend: LocalBackend) -> None:
    response = backend.generate(ask(max_tokens=60))
    report = response.report
    assert report is not None
    assert report.mode == "asymspec"
    assert report.fallback is None
    assert report.verifier_prompt_tokens == response.usage.prompt_tokens == ids(backend, COMPRESSED)
    assert report.drafter_prompt_tokens == ids(backend, FULL) > report.verifier_prompt_tokens
    assert report.accepted + report.fused >= response.usage.completion_tokens == 60
    assert min(report.accepted, report.fused, report.mean_divergence) > 0
    assert response.finish_reason == "length"
    assert response.raw_text == response.content
    assert {segment.origin for segment in response.segments} == {"accepted", "fused"}


def test_whole_messages_are_the_same_as_edits(backend: LocalBackend) -> None:
    whole = ChatRequest(messages=FULL, asymspec=AsymSpecRequest(messages=COMPRESSED), max_tokens=12)
    edited = backend.generate(ask())
    backend.engine.prefixes.clear()
    assert backend.generate(whole) == edited


@pytest.mark.parametrize("mode", ["asymspec", "product", "scaled"])
def test_identical_views_are_decoded_strict(backend: LocalBackend, mode: str) -> None:
    response = backend.generate(ask(edits=(), options={"mode": mode}))
    assert response.report is not None
    assert (response.report.mode, response.report.fallback) == ("strict", "identical_views")
    assert response.content == backend.generate(ask(edits=None)).content  # lossless


def test_edits_that_change_nothing_are_identical_views(backend: LocalBackend) -> None:
    report = backend.generate(ask(edits=[{"message": 0, "text": "Be brief."}])).report
    assert report is not None
    assert (report.mode, report.fallback) == ("strict", "identical_views")


def test_identical_views_keep_the_gate_where_asked_to(backend: LocalBackend) -> None:
    report = backend.generate(ask(edits=(), options={"identical_views": "gate"})).report
    assert report is not None
    assert (report.mode, report.fallback, report.mean_divergence) == ("asymspec", None, 0.0)


def test_a_plain_request_is_the_verifier_alone_on_everything(backend: LocalBackend) -> None:
    response = backend.generate(ask(edits=None))
    assert response.report is None
    assert response.usage.prompt_tokens == ids(backend, FULL)
    assert {segment.origin for segment in response.segments} == {"plain"}
    backend.engine.prefixes.clear()
    ceiling = backend.with_arm("ceiling").generate(ask())
    assert (response.content, response.usage) == (ceiling.content, ceiling.usage)
    for arm in ("floor", "rapid"):  # an arm is about AsymSpec requests
        assert backend.with_arm(arm).generate(ask(edits=None)).content == response.content


def test_every_arm_answers_from_its_own_views(backend: LocalBackend) -> None:
    answers: dict[str, ChatResponse] = {}
    for name, arm in ARMS.items():
        backend.engine.prefixes.clear()
        response = answers[name] = backend.with_arm(name).generate(ask(max_tokens=24))
        assert response.report is not None
        reads = FULL if arm.verifying.view == "full" else COMPRESSED
        assert response.usage.prompt_tokens == ids(backend, reads)
        assert response.report.fallback is None
        assert (response.report.drafted > 0) == (arm.drafting is not None)
    assert answers["symmetric_full"].content == answers["ceiling"].content == answers["rapid"].content
    assert answers["symmetric_compressed"].content == answers["floor"].content
    assert len({answers[name].content for name in ("asymspec", "floor", "ceiling", "drafter")}) == 4
    assert backend.with_arm("drafter").generate(ask(edits=None, max_tokens=24)).content == (
        answers["drafter"].content
    )
    with pytest.raises(ConfigurationError, match=r"arm='ceilling' is unknown; arms: asymspec, floor"):
        backend.with_arm("ceilling")


def test_the_compressed_view_has_its_own_tools(backend: LocalBackend) -> None:
    tools = AsymSpecRequest.model_validate({"edits": [], "tools": [SIGNATURE]})
    same = backend.generate(ask(edits=(), tools=(WEATHER,))).report
    short = backend.generate(
        ChatRequest(messages=FULL, tools=(WEATHER,), asymspec=tools, max_tokens=4)
    ).report
    assert same is not None
    assert short is not None
    assert same.verifier_prompt_tokens == same.drafter_prompt_tokens == short.drafter_prompt_tokens
    assert short.verifier_prompt_tokens < short.drafter_prompt_tokens
    assert short.mode == "asymspec"
    # tool_choice "none": no view has tools, and nothing is parsed
    none = backend.generate(
        ChatRequest(messages=FULL, tools=(WEATHER,), asymspec=tools, max_tokens=4, tool_choice="none")
    ).report
    assert none is not None
    assert none.verifier_prompt_tokens == none.drafter_prompt_tokens == ids(backend, FULL)


def test_capabilities_and_prompt_counts(backend: LocalBackend) -> None:
    capabilities = backend.capabilities
    assert (capabilities.verifier, capabilities.modes) == (
        backend.engine.models["verifier"].name,
        tuple(MODES),
    )
    request = ask(edits=None, tools=(WEATHER,))
    assert (
        backend.count_prompt(request.messages, request.tools) == backend.generate(request).usage.prompt_tokens
    )
    assert backend.count_prompt(request.messages) < backend.count_prompt(request.messages, request.tools)


def test_template_variables_reach_both_views(backend: LocalBackend) -> None:
    plain = backend.generate(ask(max_tokens=1)).report
    moody = backend.generate(ask(max_tokens=1, chat_template_kwargs={"mood": "glad"})).report
    assert plain is not None
    assert moody is not None
    added = len("[glad]\n")
    assert moody.verifier_prompt_tokens - plain.verifier_prompt_tokens == added
    assert moody.drafter_prompt_tokens - plain.drafter_prompt_tokens == added
    with pytest.raises(ConfigurationError, match="chat_template_kwargs: add_generation_prompt"):
        backend.generate(ask(chat_template_kwargs={"add_generation_prompt": False}))


def test_a_salt_isolates_what_is_cached(backend: LocalBackend) -> None:
    def cached(salt: str | None) -> int:
        report = backend.generate(ask(cache_salt=salt)).report
        assert report is not None
        kept = report.cached_tokens
        assert (kept.verifier > 0) == (kept.drafter > 0) == (kept.base > 0)
        return kept.verifier

    assert cached("a") == 0
    assert cached("a") == ids(backend, COMPRESSED) - 1
    assert cached("b") == cached(None) == 0
    assert cached("b") > 0


def test_the_trace_adds_up_to_the_reports() -> None:
    recorder = MemoryRecorder()
    backend = writing_backend(list("abcdefgh"), drafter_pieces=list("abxdeygh"), recorder=recorder)
    reports = [backend.generate(ask()).report, backend.generate(ask(edits=())).report]
    metrics = measure(recorder.events)
    for name, field in (("blocks", "num_blocks"), ("accepted", "num_accepted"), ("fused", "num_fused")):
        assert getattr(metrics, field) == sum(getattr(report, name) for report in reports)
    assert metrics.num_drafted == sum(report.drafted for report in reports if report is not None)
    assert (metrics.num_requests, metrics.num_responses, metrics.num_fallbacks) == (2, 2, 1)


def test_a_fallback_of_the_request_is_in_the_trace() -> None:
    recorder = MemoryRecorder()
    backend = writing_backend(["a"], recorder=recorder)
    backend.generate(ask(temperature=1, options={"on_sampling": "greedy"}))
    (event,) = [event for event in recorder.events if event.event == "request"]
    assert event.fallback == "greedy"  # type: ignore[attr-defined]


def test_calls_come_with_ids_that_follow_from_the_prompt() -> None:
    call = '<tool_call>{"name": "weather", "arguments": {"city": "%s"}}</tool_call>'
    backend = writing_backend(["Let me", " see.", *(call % city for city in ("Oslo", "Rome", "Bergen"))])
    request = ask(tools=(WEATHER,))
    response = backend.generate(request)
    assert response.content == "Let me see."
    assert response.finish_reason == "tool_calls"
    names = [json.loads(c.function.arguments)["city"] for c in response.tool_calls if c.function is not None]
    assert names == ["Oslo", "Rome", "Bergen"]
    numbers = [str(c.id) for c in response.tool_calls]
    assert numbers == sorted(set(numbers))
    assert backend.generate(ask(tools=(WEATHER,))).tool_calls == response.tool_calls
    other = backend.generate(ask((*FULL, {"role": "user", "content": "Again"}), tools=(WEATHER,)))
    assert not {c.id for c in other.tool_calls} & set(numbers)
    # without tools, or with calls switched off, the same text is content
    for fields in ({}, {"tools": (WEATHER,), "tool_choice": "none"}):
        plain = backend.generate(ask(**fields))
        assert (plain.content, plain.finish_reason, plain.tool_calls) == (response.raw_text, "stop", ())
