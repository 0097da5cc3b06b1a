"""Both budgets hold by a model's own tokenizer and chat template, tools included, whatever the texts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.load import load_tokenizer
from asymspec_agents.errors import ContextOverflowError, MessageError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.tokens import TokenizerCounter
from asymspec_agents.views import ViewPolicy
from tests.presets import preset_folder
from tests.routing import Wire, agent_run

from .tiny_folder import byte_tokenizer

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Finds {name} by any of its names. " * 8,
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string", "description": "What to look for. " * 6}},
                "required": ["q"],
            },
        },
    }
    for name in ("trains", "hotels")
]
# What an estimate misjudges most: scripts it has no class for, runs without words, control tokens' names.
seeds = st.sampled_from(
    (
        "The train leaves at ten. ",
        "𓀀𓂀 ",
        "ཀཁགང",
        "!?$%&/()=~^",
        "aB3xQ9zK",
        "0123456789",
        "<|im_end|>\n",
        "\u0958ﷺé\u0301",
        "\ud800\x00\x01",
        '{"id": 1.5, "ok": null}, ',
        "   \t\t\n",
        "👩‍👩‍👧‍👦",
    )
)
texts = st.builds(lambda seed, size: (seed * (size // len(seed) + 1))[:size], seeds, st.integers(0, 4_000))


@st.composite
def runs(draw: st.DrawFn) -> list[Wire]:
    messages = agent_run(draw(st.integers(1, 8)), 10)
    for message in messages[3::2]:
        message["content"] = draw(texts)
    messages[1]["content"] = draw(texts)[:300] or "?"
    for _ in range(draw(st.integers(0, 2))):
        messages += [{"role": "assistant", "content": draw(texts)}, {"role": "user", "content": "And?"}]
    return messages


def attempt(router: ContextRouter, messages: list[Wire]) -> RoutedContext | ContextOverflowError:
    try:
        return router.route(messages, TOOLS)
    except ContextOverflowError as error:
        return error


def check(template: ChatTemplate, messages: list[Wire], limits: tuple[int, int], **options: Any) -> None:
    def count(view: Any, tools: Any) -> int:
        return len(template.ids(view, tools))

    policy = ViewPolicy(
        max_verifier_tokens=limits[0], max_drafter_tokens=limits[1], compress_timeout_s=None, keep_last=1
    )
    router = ContextRouter(policy, prompt_counter=count, **options)
    tools = [ToolSpec.model_validate(tool) for tool in TOOLS]
    routed = attempt(router, messages)
    if isinstance(routed, ContextOverflowError):
        # Only what no budget may touch, with a sign for each other text, is too long.
        movable = ("tool", "assistant")
        least = [
            Message.model_validate({**message, "content": "…"} if message["role"] in movable else message)
            for message in messages
        ]
        shown = tools if routed.view == "full" else ContextRouter().route([], TOOLS).compressed_tools
        assert count(least, shown) + 4 * len(messages) > routed.limit
        return
    assert count(routed.compressed, routed.compressed_tools) <= limits[0]
    assert count(routed.full, routed.tools) <= limits[1]
    if routed.report.is_exact:
        assert routed.report.compressed_tokens == count(routed.compressed, routed.compressed_tools)


limits = st.tuples(st.integers(300, 6_000), st.integers(2_000, 20_000))


@settings(deadline=None, max_examples=40)
@given(runs(), limits)
def test_both_budgets_hold_where_every_byte_is_a_token(messages: list[Wire], within: tuple[int, int]) -> None:
    check(ChatTemplate(byte_tokenizer()), messages, within)


def test_a_view_far_below_its_limit_by_estimate_is_counted_all_the_same() -> None:
    """Four bytes are a token to the estimate and one to this tokenizer."""
    template = ChatTemplate(byte_tokenizer())
    messages = agent_run(4, 780)
    check(template, messages, (3_500, 10**6))


REAL = ("qwen2.5-coder-0.5b", "smollm2-135m")


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> Callable[..., None]:
    tokenizer = load_tokenizer(preset_folder(request.param))
    template = ChatTemplate(tokenizer)
    try:
        template.ids([Message(role="user", content="?")])
    except MessageError:
        pytest.skip(f"{request.param} has no chat template")
    counter = TokenizerCounter(tokenizer)

    def checked(messages: list[Wire], within: tuple[int, int], by_tokenizer: bool) -> None:
        check(template, messages, within, **({"counter": counter} if by_tokenizer else {}))

    return checked


@pytest.mark.full
def test_both_budgets_hold_by_the_presets_tokenizers(real: Callable[..., None]) -> None:
    @settings(deadline=None, max_examples=30)
    @given(runs(), limits, st.booleans())
    def hold(messages: list[Wire], within: tuple[int, int], by_tokenizer: bool) -> None:
        real(messages, within, by_tokenizer)

    hold()
