"""The same request through the engine in this process and through a server over it gives the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from asymspec_agents.backends import (
    ChatDelta,
    ChatRequest,
    ChatResponse,
    CompletionRequest,
    HTTPBackend,
    collect,
)
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import AsymSpecError
from tests.engine.tiny_folder import COMPRESSED, FULL, SHORT, WEATHER, ask, random_backend, writing_backend

from .serving import serving

PROMPT = "The log says: a line, a line, a line of the log."
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Pa\u2028ris"}}\n</tool_call>'


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[LocalBackend, HTTPBackend]]:
    """An engine of its own for each side: neither finds the other's prefix caches."""
    served = random_backend()
    with serving({"verifier": served, "drafter": served.with_arm("drafter")}) as url:
        remote = HTTPBackend(url)
        yield random_backend(), remote
        remote.close()


async def astream(backend: HTTPBackend, request: AnyRequest) -> list[ChatDelta]:
    return [delta async for delta in backend.astream(request)]


FORMS: dict[str, Callable[[HTTPBackend, AnyRequest], ChatResponse]] = {
    "generate": lambda backend, request: backend.generate(request),
    "stream": lambda backend, request: collect(backend.stream(request)),
    "agenerate": lambda backend, request: asyncio.run(backend.agenerate(request)),
    "astream": lambda backend, request: collect(asyncio.run(astream(backend, request))),
}


def shape(response: ChatResponse, *, is_cached: bool) -> tuple[object, ...]:
    """What must be the same; how much was cached is, once both sides have seen the prompt."""
    usage, report = response.usage, response.report
    counts = (usage.prompt_tokens, usage.completion_tokens)
    if not is_cached and report is not None:
        report = report.model_copy(update={"cached_tokens": None})
    return (
        response.content,
        response.reasoning,
        response.tool_calls,
        response.finish_reason,
        usage if is_cached else counts,
        report,
    )


def check_same(
    local: LocalBackend, remote: HTTPBackend, request: AnyRequest, asked_here: AnyRequest | None = None
) -> ChatResponse:
    """Asserts the same answer, first whole, then streamed from what is cached; the local one.

    `asked_here` is what the local backend is asked, by default the same request.
    """
    first, again = (local.generate(asked_here or request) for _ in range(2))
    whole, streamed = (FORMS[form](remote, request) for form in ("generate", "stream"))
    assert shape(whole, is_cached=False) == shape(first, is_cached=False)
    assert shape(streamed, is_cached=True) == shape(again, is_cached=True)
    return first


def test_every_form_gives_the_same(pair: tuple[LocalBackend, HTTPBackend]) -> None:
    local, remote = pair
    local.generate(ask())
    remote.generate(ask())
    expected = shape(local.generate(ask()), is_cached=True)
    for form in FORMS.values():
        assert shape(form(remote, ask()), is_cached=True) == expected


OPTIONS: list[dict[str, Any]] = [
    {},
    {"mode": "strict"},
    {"mode": "scaled", "scale": 2.0, "num_draft_tokens": 1},
    {"mode": "fused_greedy", "beta": 0.5, "num_draft_tokens": 4},
    {"gate": "slack", "delta": "none", "slack": 0.5},
    {"bonus": "verifier", "identical_views": "gate", "gamma": 0.1},
    {"plausibility": 0.2, "agreement": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_asymspec_chats(pair: tuple[LocalBackend, HTTPBackend], options: dict[str, Any]) -> None:
    response = check_same(*pair, ask(options=options))
    assert response.report is not None
    assert response.report.blocks


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 1},
        {"stop": ("e", "a")},
        {"temperature": 0.0},
        {"temperature": 0.9, "seed": 7},
        {"temperature": 1.3, "seed": -7, "top_p": 0.8},
        {"tools": [WEATHER]},
        {"tools": [WEATHER], "tool_choice": "none"},
        {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 30},
        {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 30},
        {"response_format": {"type": "json_object"}, "max_tokens": 20},
        {"chat_template_kwargs": {"mood": "glad"}},
        {"cache_salt": "a", "session_id": "s"},
        {"extra": {"user": "u", "n": 1}},
    ],
    ids=range(14),
)
def test_plain_chats(pair: tuple[LocalBackend, HTTPBackend], fields: dict[str, Any]) -> None:
    # Without labels and neutral fields: a server drops what changes nothing, the engine refuses it.
    here = {name: value for name, value in fields.items() if name != "extra"}
    response = check_same(*pair, ask(edits=None, **fields), ask(edits=None, **here))
    assert response.report is None


def test_views_as_whole_messages_and_with_short_tools(pair: tuple[LocalBackend, HTTPBackend]) -> None:
    short = [{"type": "function", "function": {"name": "weather"}}]
    asked = {"messages": list(COMPRESSED), "tools": short}
    check_same(*pair, ChatRequest(messages=FULL, tools=[WEATHER], asymspec=asked, max_tokens=12))


@pytest.mark.parametrize("prompt", [PROMPT, [5, 60, 7, 8, 9]])
@pytest.mark.parametrize("compressed", [None, "The log.", [5, 60]])
def test_completions(pair: tuple[LocalBackend, HTTPBackend], prompt: Any, compressed: Any) -> None:
    asymspec = None if compressed is None else {"prompt": compressed, "num_draft_tokens": 3}
    check_same(*pair, CompletionRequest(prompt=prompt, asymspec=asymspec, max_tokens=12))


def test_an_answer_as_long_as_the_model_allows(pair: tuple[LocalBackend, HTTPBackend]) -> None:
    response = check_same(*pair, CompletionRequest(prompt="a" * 1_500, asymspec={"prompt": "b" * 1_490}))
    assert response.finish_reason == "length"


@pytest.mark.parametrize("arm", ["floor", "ceiling", "drafter"])
def test_arms(pair: tuple[LocalBackend, HTTPBackend], arm: str) -> None:
    local, remote = (backend.with_arm(arm) for backend in pair)
    request = ask(max_tokens=16)
    mine, theirs = local.generate(request), remote.generate(request)
    assert theirs.content == mine.content
    assert theirs.finish_reason == mine.finish_reason
    assert theirs.usage.prompt_tokens == mine.usage.prompt_tokens
    assert theirs.usage.completion_tokens == mine.usage.completion_tokens
    assert mine.report is not None
    assert theirs.report is not None
    assert theirs.report.mode == mine.report.mode == arm
    assert theirs.report.verifier_prompt_tokens == mine.report.verifier_prompt_tokens


def test_tool_calls_are_parsed_the_same() -> None:
    pieces = ["Let me ", "see.\n", CALL]
    with serving(writing_backend(pieces)) as url:
        remote = HTTPBackend(url)
        for edits in (SHORT, None):
            request = ask(edits=edits, tools=[WEATHER], max_tokens=None)
            response = check_same(writing_backend(pieces), remote, request)
            assert response.finish_reason == "tool_calls"
            (call,) = response.tool_calls
            assert call.function is not None
            assert call.function.name == "weather"
        remote.close()


WRONG: list[AnyRequest] = [
    ask(temperature=0.5),
    ask(edits=[{"message": 9, "text": ""}]),
    ask(max_tokens=5_000),
    ask([{"role": "user", "content": "a" * 3_000}], edits=None),
    ask([{"role": "user", "content": "a" * 3_000}], edits=[{"message": 0, "text": "a"}]),
    ask(tool_choice="required"),
    ask(response_format={"type": "poem"}),
    ask(extra={"n": 2}),
    CompletionRequest(prompt=[10**6]),
    CompletionRequest(prompt=""),
    CompletionRequest(prompt="a", asymspec={"prompt": [-1]}),
]


@pytest.mark.parametrize("request_", WRONG, ids=range(len(WRONG)))
def test_refusals_are_the_same_exceptions(
    pair: tuple[LocalBackend, HTTPBackend], request_: AnyRequest
) -> None:
    local, remote = pair
    with pytest.raises(AsymSpecError) as mine:
        local.generate(request_)
    for ask_remote in (remote.generate, lambda request: collect(remote.stream(request))):
        with pytest.raises(AsymSpecError) as theirs:
            ask_remote(request_)
        assert type(theirs.value) is type(mine.value)
        assert str(theirs.value) == str(mine.value)


def test_requests_at_the_same_time_do_not_mix() -> None:
    texts = [f"Question {number}. " * (number % 7 + 1) for number in range(24)]
    requests = [
        ask([{"role": "user", "content": text}], edits=[{"message": 0, "text": text[:9]}]) for text in texts
    ]
    expected = [random_backend().generate(request).content for request in requests]
    with serving(random_backend(), max_waiting=32) as url, ThreadPoolExecutor(12) as pool:
        remote = HTTPBackend(url)
        assert [answer.content for answer in pool.map(remote.generate, requests)] == expected
        counts = list(pool.map(lambda request: remote.count_prompt(request.messages), requests))
        assert counts == [random_backend().count_prompt(request.messages) for request in requests]
        remote.close()


def test_both_say_the_same_of_themselves(pair: tuple[LocalBackend, HTTPBackend]) -> None:
    local, remote = pair
    assert remote.capabilities == local.capabilities
    request = ask(tools=[WEATHER])
    counter = remote.prompt_counter
    assert counter is not None
    assert counter(request.messages, request.tools) == local.count_prompt(request.messages, request.tools)
