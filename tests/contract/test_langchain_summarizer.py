"""AsymSpecSummarizer in LangChain's own SummarizationMiddleware."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from asymspec_agents import ScriptedBackend
from asymspec_agents.compress.auto import AutoCompressor
from asymspec_agents.compress.base import Rendition
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.summary import SummaryCompressor
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.trace import MemoryRecorder
from langchain_asymspec.summarizer import AsymSpecSummarizer
from tests.langchain_agents import LOG, Single, assert_paired, calling, read_log, recorded, run


def agent_with(summarizer: Any, model: Single) -> Any:
    summarizing = SummarizationMiddleware(
        Single(script=[]),  # never asked: the summarizer writes
        trigger=("messages", 6),
        keep=("messages", 3),
        trim_tokens_to_summarize=None,
        summarizer=summarizer,
    )
    return create_agent(model, [read_log], middleware=[summarizing])


def script() -> list[AIMessage]:
    steps = [calling("read_log", f"a{number}", f"b{number}", service="mail") for number in range(4)]
    return [*steps, AIMessage("Request 7.")]


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_a_model_behind_any_backend_writes_the_summary(how: str) -> None:
    """langchain-ai/langchain#38352, #34282: a summary kept a result whose call it had taken out."""
    backend = ScriptedBackend(lambda request: "The logs were read.")
    model = Single(script=script())
    run(agent_with(AsymSpecSummarizer(SummaryCompressor(backend)), model), "Which took 7 ms?", how=how)
    last = model.sent[-1].messages
    assert last[0].text.startswith("Here is a summary of the conversation to date:\n\n[Summary of ")
    assert "The logs were read." in last[0].text
    for sent in model.sent:
        assert_paired(sent.messages)
    asked = [text for request in backend.requests for message in request.messages for text in message.texts()]
    assert any("Which took 7 ms?" in text for text in asked)
    assert all(request.asymspec is None for request in backend.requests)


def test_no_token_of_the_summary_is_streamed() -> None:
    """langchain-ai/langchain#34382: the summary's tokens reached the user's stream."""
    summarizer = AsymSpecSummarizer(SummaryCompressor(ScriptedBackend(lambda request: "The logs were read.")))
    agent = agent_with(summarizer, Single(script=script()))
    given = {"messages": [HumanMessage("Which took 7 ms?")]}
    streamed = [message for message, _ in agent.stream(given, stream_mode="messages")]
    assert "".join(message.text for message in streamed if isinstance(message, AIMessage)) == "Request7."


def test_what_was_summarized_is_in_the_store_and_asked_about_first() -> None:
    asked: list[str] = []

    class Listening(AutoCompressor):
        def compress(self, text: str, *, query: str, **rest: Any) -> Rendition:
            asked.append(query)
            return super().compress(text, query=query, **rest)

    summarizer = AsymSpecSummarizer(Listening(), max_tokens=300)
    earlier = HumanMessage("[Summary] before", additional_kwargs={"lc_source": "summarization"})
    image = {"type": "image", "base64": "A" * 100_000, "mime_type": "image/png"}
    messages = [
        earlier,
        HumanMessage([{"type": "text", "text": "Which took 7 ms?"}, image]),
        calling("read_log", "c", service="mail"),
        ToolMessage(LOG, tool_call_id="c"),
    ]
    summary = summarizer(messages)
    assert asked == ["Which took 7 ms?"]
    assert EstimateCounter().count(summary) <= 330
    assert "AAAA" not in summary
    original = summarizer.store.get_text(summary[summary.index("sha256:") :][:19])
    assert original is not None
    assert original.startswith("user: [Summary] before")
    assert LOG in original
    assert "[calls read_log" in original


def test_a_compressor_that_fails_costs_the_summary_not_the_run() -> None:
    class Failing(AutoCompressor):
        def compress(self, text: str, **rest: Any) -> Rendition:
            raise RuntimeError("secret")

    recorder = MemoryRecorder()
    model = Single(script=script())
    state = run(agent_with(AsymSpecSummarizer(Failing(), recorder=recorder), model), "Which took 7 ms?")
    assert state["messages"][-1].text == "Request 7."
    assert "Which took 7 ms?" in model.sent[-1].messages[0].text  # head and tail of what was taken out
    assert recorded(recorder, "compress")[0]["reason"] == "RuntimeError"


def test_a_store_that_fails_costs_the_reference_only() -> None:
    recorder = MemoryRecorder()
    summarizer = AsymSpecSummarizer(AutoCompressor(), recorder=recorder)

    def full(content: str | bytes) -> str:
        raise OSError("disk full")

    summarizer.store.put = full  # type: ignore[method-assign]
    assert "request" in summarizer([HumanMessage("Which?"), AIMessage(LOG)])
    assert recorded(recorder, "store_failed")[0]["error"] == "OSError"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_tokens": 10}, "max_tokens=10"),
        ({"timeout_s": 0}, "timeout_s=0"),
        ({"compressor": "model"}, "compressor must be a Compressor"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AsymSpecSummarizer(**{"compressor": AutoCompressor(), **options})
