"""What users of other libraries ran into, as their public threads tell: with ChatAsymSpec it does not happen.

Further threads are tested beside what they are about: test_langchain_calls.py, test_langchain_answers.py,
contract/test_langchain_http.py and the middleware's own tests.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from asymspec_agents import ChatRequest, ContextRouter, ScriptedBackend, ViewPolicy
from asymspec_agents.backends import Capabilities
from langchain_asymspec import ChatAsymSpec
from tests.contract.langchain_answers import obedient_backend

Model = Runnable[LanguageModelInput, AIMessage]


@tool
def weather(city: str) -> str:
    """The weather of a city, which this tool knows for every city there is, and for every day of the week."""
    return f"{city}: sunny"


async def _astream(model: Model) -> None:
    async for _ in model.astream("Weather in 'Paris'?"):
        pass


WAYS: dict[str, Callable[[Model], Any]] = {
    "invoke": lambda model: model.invoke("Weather in 'Paris'?"),
    "stream": lambda model: list(model.stream("Weather in 'Paris'?")),
    "batch": lambda model: model.batch(["Weather in 'Paris'?"]),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("Weather in 'Paris'?")),
    "astream": lambda model: asyncio.run(_astream(model)),
    "abatch": lambda model: asyncio.run(model.abatch(["Weather in 'Paris'?"])),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("streaming", [None, True, False])
def test_bound_tools_reach_the_backend_by_every_way_of_asking(way: str, streaming: bool | None) -> None:
    """headroomlabs-ai/headroom PR #3399: a model wrapped around another lost the tools bound to it.
    headroomlabs-ai/headroom #1285: `ainvoke` of a model with streaming=True failed.
    """
    backend = obedient_backend()
    bound = ChatAsymSpec(backend=backend, streaming=streaming).bind_tools([weather], tool_choice="any")
    WAYS[way](bound.with_config(tags=["a"]).with_retry())
    (request,) = backend.requests
    assert isinstance(request, ChatRequest)
    assert [spec.function.name for spec in request.tools if spec.function] == ["weather"]
    assert request.tool_choice == "required"


def test_files_are_never_counted_as_text() -> None:
    """langchain-ai/langchain #40731, #39857 and #38258: base64 of images and audio was counted as words."""
    data = base64.b64encode(bytes(range(256)) * 2_000).decode()
    model = ChatAsymSpec(backend=obedient_backend())
    for part in (
        {"type": "image", "base64": data, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        {"type": "audio", "base64": data, "mime_type": "audio/wav"},
        {"type": "file", "base64": data, "mime_type": "application/pdf"},
    ):
        message = HumanMessage([{"type": "text", "text": "What is this?"}, part])
        assert model.get_num_tokens_from_messages([message]) < 2_000


def test_system_prompt_and_tools_are_counted() -> None:
    """langchain-ai/langchain #34664: what a trigger counted left out the system prompt and the tools."""
    model = ChatAsymSpec(backend=obedient_backend())
    user = [HumanMessage("Hello")]
    alone = model.get_num_tokens_from_messages(user)
    with_system = model.get_num_tokens_from_messages([SystemMessage("Be brief. " * 100), *user])
    with_tools = model.get_num_tokens_from_messages(user, tools=[weather])
    assert alone < 40
    assert with_system > alone + 200
    assert with_tools > alone + 100


def test_scripts_without_spaces_are_not_undercounted() -> None:
    """headroomlabs-ai/headroom PR #1093 and #2080: Chinese was counted at a quarter of its tokens."""
    assert ChatAsymSpec(backend=obedient_backend()).get_num_tokens("你好，世界。" * 100) > 300


class _Counting(ScriptedBackend):
    @property
    def prompt_counter(self) -> Any:
        return lambda messages, tools: 1_000 * len(messages) + len(tools)


def test_a_backend_that_can_count_is_asked() -> None:
    model = ChatAsymSpec(backend=_Counting([]))
    assert model.get_num_tokens_from_messages([HumanMessage("a"), AIMessage("b")], tools=[weather]) == 2_001


def test_an_own_counter_stands() -> None:
    model = ChatAsymSpec(backend=obedient_backend(), custom_get_token_ids=lambda text: [0] * len(text))
    assert model.get_num_tokens("abc") == 3


class _Limited(ScriptedBackend):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("v", "d", ("asymspec",), 6_000, None)


def test_views_keep_their_beginning_from_call_to_call() -> None:
    """QwenLM/qwen-code #8463: once over a threshold, each turn rewrote the history, and no cache was of use.
    huggingface/smolagents #2054 and #1672: agents want prefixes that stay.
    """
    backend = _Limited(lambda request: "Done.")
    model = ChatAsymSpec(backend=backend, max_tokens=100)
    messages: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("Which request was slow?")]
    for number in range(40):
        call = {"name": "read_log", "args": {"part": number}, "id": f"c{number}"}
        log = "\n".join(f"{number}-{line} served in {line * number % 97} ms" for line in range(40))
        messages += [AIMessage("", tool_calls=[call]), ToolMessage(log, tool_call_id=f"c{number}")]
        model.invoke(messages)
    views = []
    for request in backend.requests:
        assert isinstance(request, ChatRequest)
        assert request.asymspec is not None
        views.append([repr(it) for it in request.asymspec.compressed_messages(request.messages)])
    changed = []  # in each call, how many of the messages before it read otherwise than in the call before
    for before, after in itertools.pairwise(views):
        same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
        changed.append(len(before) - same if same else 0)
    # The turn that leaves the verbatim window changes; a budget is met by many turns at once, and seldom.
    assert sum(number > 4 for number in changed) <= 3


def test_the_same_call_has_the_same_views_in_every_model() -> None:
    history: list[BaseMessage] = [HumanMessage("Which row?")]
    rows = "\n".join(f"row {number} of many rows" for number in range(2_000))
    history += [
        AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c"}]),
        ToolMessage(rows, tool_call_id="c"),
    ]
    sent = []
    for _ in range(2):
        backend = obedient_backend()
        router = ContextRouter(ViewPolicy(keep_last=1))
        ChatAsymSpec(backend=backend, router=router).invoke(history)
        asyncio.run(ChatAsymSpec(backend=backend, router=router).ainvoke(history))
        sent += [request.asymspec for request in backend.requests]
    assert sent[0] is not None
    assert sent[0].edits
    assert sent == [sent[0]] * 4
