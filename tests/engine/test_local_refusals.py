"""What LocalBackend refuses, and what it does instead where the request asked for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, CompletionRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.errors import (
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    UnsupportedRequestError,
)
from asymspec_agents.messages import parse_messages
from asymspec_agents.router import ContextRouter
from asymspec_agents.trace.metrics_recorder import MetricsRecorder
from asymspec_agents.trace.recorder import MemoryRecorder, TeeRecorder
from asymspec_agents.trace.story import tell

from .tiny_folder import FULL, MAX_POSITIONS, WEATHER, ask, random_backend


@pytest.fixture
def backend() -> LocalBackend:
    return random_backend()


def ids(backend: LocalBackend, messages: Any, tools: Any = ()) -> int:
    return len(backend.template.ids(parse_messages(messages), tools))


@pytest.mark.parametrize("temperature", [None, 0, 0.0])
def test_no_temperature_is_greedy(backend: LocalBackend, temperature: float | None) -> None:
    for edits in (None, ()):
        assert backend.generate(ask(edits=edits, temperature=temperature, max_tokens=2)).content


def test_sampling_is_refused_unless_the_request_turns_it_off(backend: LocalBackend) -> None:
    with pytest.raises(UnsupportedRequestError, match=r"^temperature=0\.7: .*0 or leave.*on_sampling=\"gree"):
        backend.generate(ask(temperature=0.7))
    with pytest.raises(UnsupportedRequestError, match="temperature"):  # the verifier would sample too
        backend.generate(ask(temperature=0.7, options={"on_unsupported": "verifier"}))
    greedy = {"on_sampling": "greedy"}
    asked = backend.generate(ask(temperature=0.7, options=greedy))
    assert asked.report is not None
    assert (asked.report.mode, asked.report.fallback) == ("asymspec", "greedy")
    assert asked.content == backend.generate(ask()).content
    for temperature in (None, 0):
        report = backend.generate(ask(temperature=temperature, options=greedy)).report
        assert report is not None
        assert report.fallback is None
    both = backend.generate(ask(edits=(), temperature=0.7, options=greedy)).report
    assert both is not None
    assert both.fallback == "greedy, identical_views"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"response_format": {"type": "regex"}}, "response_format of type 'regex'.*json_schema"),
        ({"response_format": {}}, "response_format of type None"),
        ({"tool_choice": "any"}, "tool_choice='any'.*'required'"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice=.*allowed_tools.*'required'"),
        ({"tool_choice": {"type": "function", "function": {"name": 3}}}, "tool_choice="),
        ({"tool_choice": {"name": "weather"}}, "tool_choice="),
        (
            {"extra": {"frequency_penalty": 0.5, "guided_regex": "a"}},
            "frequency_penalty=0.5, guided_regex='a'",
        ),
        ({"extra": {"logit_bias": dict.fromkeys(range(999), 1)}}, r"logit_bias=\{.{1,99}\.\.\.\}"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(backend: LocalBackend, fields: Any, text: str) -> None:
    for edits in (None, ()):
        with pytest.raises(UnsupportedRequestError, match=text):
            backend.generate(ask(edits=edits, tools=(WEATHER,), **fields))


def test_what_changes_nothing_is_accepted(backend: LocalBackend) -> None:
    extra = {"n": 1, "logprobs": False, "frequency_penalty": 0, "user": "somebody", "metadata": {"a": "b"}}
    fields = {
        "response_format": {"type": "text"},
        "tool_choice": "auto",
        "session_id": "s",
        "extra": extra,
    }
    assert backend.generate(ask(**fields)).content == backend.generate(ask()).content


@pytest.mark.parametrize("max_tokens", [0, -1, True, 1.5, "3"])
def test_max_tokens_is_a_positive_integer(max_tokens: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"^max_tokens={max_tokens!r} must be an integer of at least"
    ):
        ask(max_tokens=max_tokens)


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf"), True, "0"])
def test_temperature_is_a_number_from_0(temperature: Any) -> None:
    with pytest.raises(ConfigurationError, match="temperature="):
        ask(temperature=temperature)


@pytest.mark.parametrize("stop", ["END", ("",), (b"x",), ("a", "")])
def test_stop_is_a_list_of_texts(stop: Any) -> None:
    with pytest.raises(ConfigurationError, match="stop="):
        ask(stop=stop)


def test_a_request_takes_wire_dicts_and_says_what_is_malformed() -> None:
    request = ChatRequest(messages=list(FULL), tools=[WEATHER], stop=["x"])  # type: ignore[arg-type]
    assert request == ChatRequest(
        messages=parse_messages(FULL), tools=request.tools, stop=("x",), request_id=request.request_id
    )
    with pytest.raises(MessageError, match=r"messages\[1\]\.role"):
        ask([{"role": "user"}, {"content": "x"}])
    with pytest.raises(MessageError, match="messages must be a list"):
        ChatRequest(messages="hi")  # type: ignore[arg-type]


def test_without_max_tokens_the_answer_ends_with_the_context(backend: LocalBackend) -> None:
    long = ({"role": "user", "content": "x" * (MAX_POSITIONS - 60)},)
    response = backend.generate(ask(long, edits=None, max_tokens=None))
    assert response.finish_reason == "length"
    assert response.usage.prompt_tokens + response.usage.completion_tokens == MAX_POSITIONS


def test_a_view_too_long_is_named(backend: LocalBackend) -> None:
    long = ({"role": "user", "content": "x" * MAX_POSITIONS},)
    num_tokens = ids(backend, long)
    with pytest.raises(ContextOverflowError, match=f"full view has {num_tokens:,} tokens") as caught:
        backend.generate(ask(long, edits=[{"message": 0, "text": "short"}]))
    limit = MAX_POSITIONS - 3  # a block of K + 1 must fit behind it
    assert (caught.value.view, caught.value.num_tokens, caught.value.limit) == ("full", num_tokens, limit)
    with pytest.raises(ContextOverflowError) as caught:  # too long for the drafter's base pass
        backend.generate(ask(edits=[{"message": 1, "text": "x" * MAX_POSITIONS}]))
    assert caught.value.view == "compressed"
    backend = random_backend(EngineOptions(max_verifier_tokens=50))
    with pytest.raises(ContextOverflowError, match="over the limit of 50") as caught:
        backend.generate(ask())
    assert caught.value.view == "compressed"
    assert backend.capabilities.max_verifier_tokens == 50


@pytest.mark.parametrize("view", ["full", "compressed"])
@pytest.mark.parametrize(
    "options", [EngineOptions(), EngineOptions(max_verifier_tokens=80, max_drafter_tokens=90)]
)
def test_a_view_of_just_the_advertised_limit_is_read(view: str, options: EngineOptions) -> None:
    """A router keeps its views within the limits that a backend names."""
    backend = random_backend(options)
    named = backend.capabilities
    limit = named.max_drafter_tokens if view == "full" else named.max_verifier_tokens
    assert limit is not None
    for num_tokens in (limit, limit + 1):
        views = {"full": [1, 2, 3], "compressed": [1, 2], view: [5] * num_tokens}
        request = CompletionRequest(
            prompt=views["full"], asymspec={"prompt": views["compressed"]}, max_tokens=1
        )
        if num_tokens == limit:
            assert backend.generate(request).usage.completion_tokens == 1
        else:
            with pytest.raises(ContextOverflowError, match=f"{view} view .* 1 over the limit of {limit:,};"):
                backend.generate(request)


def test_an_answer_without_room_is_refused(backend: LocalBackend) -> None:
    with pytest.raises(ContextOverflowError, match=r"lower max_tokens to 1[0-9]{3} or shorten the view"):
        backend.generate(ask(max_tokens=MAX_POSITIONS))


@pytest.mark.parametrize(
    ("messages", "options", "fields"),
    [
        (({"role": "user", "content": "x" * MAX_POSITIONS},), EngineOptions(), {}),
        (({"role": "user", "content": "x" * 400},), EngineOptions(max_drafter_tokens=300), {}),
        (({"role": "user", "content": "x" * (MAX_POSITIONS - 90)},), EngineOptions(), {"max_tokens": 100}),
    ],
    ids=["beyond the model", "beyond the configured limit", "no room for the answer"],
)
def test_the_verifier_alone_where_asked_and_only_the_full_view_has_no_room(
    messages: Any, options: EngineOptions, fields: Any
) -> None:
    backend = random_backend(options)
    edits = [{"message": 0, "text": "short"}]
    with pytest.raises(ContextOverflowError, match="full view"):
        backend.generate(ask(messages, edits=edits, **fields))
    verifier = {"on_unsupported": "verifier"}
    response = backend.generate(ask(messages, edits=edits, options=verifier, **fields))
    assert response.report is not None
    assert (response.report.mode, response.report.fallback) == ("floor", "full_view_overflow")
    assert response.report.drafter_prompt_tokens == response.report.drafted == 0
    floor = backend.with_arm("floor").generate(ask(messages, edits=edits, **fields))
    assert response.content == floor.content
    greedy = {**verifier, "on_sampling": "greedy"}
    report = backend.generate(ask(messages, edits=edits, options=greedy, temperature=1, **fields)).report
    assert report is not None
    assert report.fallback == "greedy, full_view_overflow"
    with pytest.raises(ContextOverflowError, match="compressed view"):  # nobody has room for this one
        backend.generate(ask(edits=[{"message": 1, "text": "x" * MAX_POSITIONS}], options=verifier))


def test_a_configured_limit_counts_the_prompt_not_the_answer(backend: LocalBackend) -> None:
    backend = random_backend(EngineOptions(max_drafter_tokens=ids(backend, FULL)))
    report = backend.generate(ask(options={"on_unsupported": "verifier"}, max_tokens=40)).report
    assert report is not None
    assert (report.mode, report.fallback) == ("asymspec", None)


def test_a_bad_edit_is_a_message_error(backend: LocalBackend) -> None:
    with pytest.raises(MessageError, match=r"edits\[0\].*only 2 messages"):
        backend.generate(ask(edits=[{"message": 7, "text": "x"}]))


def test_a_refusal_is_an_ending_in_the_trace() -> None:
    memory, metrics = MemoryRecorder(), MetricsRecorder(("engine",))
    backend = random_backend(recorder=TeeRecorder(memory, metrics))
    router = ContextRouter(recorder=memory)
    request = ask(temperature=0.7)
    for text in ("first", "second"):
        router.route([{"role": "user", "content": text}])
        with pytest.raises(UnsupportedRequestError):
            backend.generate(request)
    backend.generate(replace(request, temperature=0.0))
    story = tell(memory.events)
    assert [(call.ending, call.view is not None) for call in story.calls] == [
        ("UnsupportedRequestError", True),
        ("UnsupportedRequestError", True),
        ("length", True),
    ]
    assert story.total.num_errors == 2
    scraped = metrics.text().decode()
    assert 'asymspec_requests_total{arm="unknown",mode="unknown",outcome="refused"} 2.0' in scraped
    assert 'outcome="finished"} 1.0' in scraped
