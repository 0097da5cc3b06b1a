"""Agents' images reach the drafter: smolagents' runs and observations, LangChain's blocks, by real models."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="the extra smolagents is not installed")
pytest.importorskip("langchain_core", reason="the extra langchain is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from PIL import Image
from smolagents import CodeAgent, OpenAIModel
from smolagents.models import ChatMessage, MessageRole

from asymspec_agents.backends import Backend, Capabilities, ChatDelta
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport
from langchain_asymspec import ChatAsymSpec
from smolagents_asymspec import AsymSpecModel, RoutedModel
from tests.server.serving import serving

from .images import data_url, encoded, noise
from .pairs import backend_of

SCRIPT = ("<code>\nprint('looked')\n</code>", "<code>\nfinal_answer('a cat')\n</code>")


class Obedient(Backend):
    """A real pair decodes every request; what it says is then replaced by the next text of a script."""

    def __init__(self, *texts: str) -> None:
        self.inner = backend_of("qwen2_vl")
        self.texts = list(texts)
        self.requests: list[AnyRequest] = []
        self.reports: list[AsymSpecReport] = []

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def num_towers(self) -> int:
        """How often the drafter's tower ran."""
        return int(self.inner.engine.models["drafter"].num_seen)  # type: ignore[attr-defined]

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        self.requests.append(request)
        last = list(self.inner.stream(request, abort=abort))[-1]
        assert last.report is not None
        self.reports.append(last.report)
        yield ChatDelta(content=self.texts.pop(0))
        yield ChatDelta(finish_reason="stop", usage=last.usage, report=last.report)


def test_a_runs_images_are_seen_in_every_step() -> None:
    backend = Obedient(*SCRIPT)
    model = AsymSpecModel(backend, max_tokens=6)
    agent = CodeAgent(tools=[], model=model, max_steps=3)
    agent.prompt_templates["system_prompt"] = "Write code."  # the tiny models have room for no more
    assert agent.run("What is this?", images=[noise(1), noise(2)]) == "a cat"
    assert [report.images for report in backend.reports] == [2, 2]
    assert backend.num_towers == 2
    assert backend.reports[1].cached_tokens.drafter > 50  # the images among them
    assert backend.reports[0].fallback is None


def test_observed_images_are_seen_from_their_step_on() -> None:
    backend = Obedient(*SCRIPT)

    def look(step: Any, agent: Any) -> None:
        step.observations_images = [noise(7)]

    agent = CodeAgent(
        tools=[], model=AsymSpecModel(backend, max_tokens=6), max_steps=3, step_callbacks=[look]
    )
    agent.prompt_templates["system_prompt"] = "Write code."
    assert agent.run("What is this?") == "a cat"
    assert [report.images for report in backend.reports] == [0, 1]
    assert backend.num_towers == 1
    asymspec = backend.requests[1].asymspec
    assert asymspec is not None
    compressed = asymspec.compressed_messages(backend.requests[1].messages)  # type: ignore[union-attr]
    texts = [text for message in compressed for text in message.texts()]
    assert any("[image: PNG, 24×16" in text for text in texts)


def test_a_run_with_more_screenshots_than_are_shown_goes_on() -> None:
    """And with one that is larger than the server shows; the limits are the backend's own."""

    class Limited(Obedient):
        @property
        def capabilities(self) -> Capabilities:
            return replace(self.inner.capabilities, max_images=2, max_image_pixels=500)

    backend = Limited(*SCRIPT[:1] * 5, SCRIPT[1])
    sizes = iter([(24, 16), (24, 16), (40, 16), (24, 16), (24, 16), (24, 16)])

    def look(step: Any, agent: Any) -> None:
        step.observations_images = [noise(step.step_number, *next(sizes))]

    agent = CodeAgent(
        tools=[], model=AsymSpecModel(backend, max_tokens=6), max_steps=6, step_callbacks=[look]
    )
    agent.prompt_templates["system_prompt"] = "Write code."
    assert agent.run("What is this?") == "a cat"
    assert [report.images for report in backend.reports] == [0, 1, 2, 2, 2, 2]


def broken_images() -> list[Any]:
    cut = Image.open(io.BytesIO(encoded(noise(5, 90, 90))[:2_000]))
    closed = noise(6)
    closed.close()
    return [cut, closed, Image.new("RGB", (0, 4))]


@pytest.mark.parametrize("is_routed", [False, True])
def test_one_bad_screenshot_does_not_end_a_run(is_routed: bool) -> None:
    backend = Obedient("A cat.")
    content = [
        {"type": "text", "text": "What is this?"},
        *({"type": "image", "image": image} for image in (*broken_images(), noise(3))),
    ]
    with serving({"large": backend}) as url:
        if is_routed:
            inner = OpenAIModel("large", api_base=f"{url}/v1", api_key="k", max_tokens=6)
            model: Any = RoutedModel(inner, options=AsymSpecOptions())
        else:
            model = AsymSpecModel(backend, max_tokens=6)
        answer = model.generate([ChatMessage(MessageRole.USER, content)])
    assert answer.content == "A cat."
    assert backend.reports[0].images == 1
    (message,) = backend.requests[0].messages  # type: ignore[union-attr]
    assert "\n".join(message.texts()).count("[image not read: it is ") == 3


def test_smolagents_messages_are_answered_with_a_report() -> None:
    backend = Obedient("A cat.")
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "image": noise(3)}]
    answer = AsymSpecModel(backend, max_tokens=6).generate([ChatMessage(MessageRole.USER, content)])
    assert answer.raw.report.images == 1
    assert answer.raw.report.drafted == 5 * answer.raw.report.blocks  # four drafts and the one behind them


def test_a_saved_model_shows_images_again() -> None:
    model = AsymSpecModel(Obedient())
    loaded = AsymSpecModel.from_dict(model.to_dict(), backend=Obedient("A cat."))
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "image": noise(3)}]
    answer = loaded.generate([ChatMessage(MessageRole.USER, content)], max_tokens=6)
    assert answer.raw.report.images == 1


def test_an_openai_model_over_a_server_that_sees() -> None:
    backend = Obedient("A cat.")
    with serving({"large": backend}) as url:
        inner = OpenAIModel("large", api_base=f"{url}/v1", api_key="k", max_tokens=6)
        content = [{"type": "text", "text": "What is this?"}, {"type": "image", "image": noise(3)}]
        RoutedModel(inner, options=AsymSpecOptions()).generate([ChatMessage(MessageRole.USER, content)])
    assert backend.reports[0].images == 1
    assert backend.reports[0].fallback is None
    asymspec = backend.requests[0].asymspec
    assert asymspec is not None
    (told,) = asymspec.compressed_messages(backend.requests[0].messages)  # type: ignore[union-attr]
    assert "[image: PNG, 24×16" in "\n".join(told.texts())  # the verifier's


def block(seed: int) -> dict[str, Any]:
    return {"type": "image", "base64": data_url(encoded(noise(seed))).split(",")[1], "mime_type": "image/png"}


def test_langchain_blocks_are_seen_in_users_and_tools_messages() -> None:
    backend = Obedient("A cat.", "Two cats.")
    chat = ChatAsymSpec(backend=backend, max_tokens=6)
    call = {"name": "look", "args": {}, "id": "1"}
    messages: list[Any] = [
        HumanMessage([{"type": "text", "text": "What is this?"}, block(1)]),
        AIMessage("", tool_calls=[call]),
        ToolMessage([block(2), {"type": "text", "text": "seen"}], tool_call_id="1"),
    ]
    assert chat.invoke(messages[:1]).text == "A cat."
    assert chat.invoke(messages).text == "Two cats."
    assert [report.images for report in backend.reports] == [1, 2]
    assert backend.num_towers == 2
    assert backend.reports[1].cached_tokens.drafter > 0


def test_googles_blocks_are_seen() -> None:
    backend = Obedient("A cat.")
    media = {"type": "media", "mime_type": "image/png", "data": block(1)["base64"]}
    ChatAsymSpec(backend=backend, max_tokens=6).invoke([HumanMessage([{"type": "text", "text": "?"}, media])])
    assert (backend.reports[0].images, backend.reports[0].fallback) == (1, None)


def test_langchain_image_urls_that_are_no_data_are_texts() -> None:
    backend = Obedient("A cat.")
    url = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    chat = ChatAsymSpec(backend=backend, max_tokens=6)
    chat.invoke([HumanMessage([{"type": "text", "text": "What is this?"}, url, block(1)])])
    assert backend.reports[0].images == 1
    content = backend.requests[0].messages[0].content  # type: ignore[union-attr]
    assert [part.type for part in content] == ["text", "text", "image_url"]
