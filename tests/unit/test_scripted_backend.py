"""The backend protocol, by way of its scripted double and of small backends made here."""

from __future__ import annotations

import threading

import pytest

from asymspec_agents.backends import (
    Capabilities,
    ChatRequest,
    ScriptedBackend,
    Usage,
    collect,
    scripted_response,
)
from asymspec_agents.errors import BackendError
from asymspec_agents.messages import FunctionCall, ToolCall, parse_messages
from asymspec_agents.protocol import AsymSpecReport, AsymSpecRequest

CALL = ToolCall(id="1", type="function", function=FunctionCall(name="f", arguments="{}"))


def request(text: str = "hi", asymspec: AsymSpecRequest | None = None) -> ChatRequest:
    return ChatRequest(messages=parse_messages([{"role": "user", "content": text}]), asymspec=asymspec)


def test_replies_come_in_order_and_requests_are_kept() -> None:
    backend = ScriptedBackend(["one", scripted_response("two", tool_calls=[CALL])], model="m")
    first, second = backend.generate(request("a")), backend.generate(request("b"))
    assert (first.content, first.finish_reason, first.tool_calls) == ("one", "stop", ())
    assert (second.content, second.finish_reason, second.tool_calls) == ("two", "tool_calls", (CALL,))
    assert [kept.messages[0].content for kept in backend.requests] == ["a", "b"]
    assert backend.capabilities == Capabilities("m", "m", ("asymspec",))
    assert backend.requests[0].request_id != backend.requests[1].request_id
    backend.close()


def test_an_exhausted_script_is_a_backend_error() -> None:
    backend = ScriptedBackend(["one"])
    backend.generate(request())
    with pytest.raises(BackendError, match="request 2"):
        backend.generate(request())


def test_a_scripted_exception_is_raised_and_the_script_goes_on() -> None:
    backend = ScriptedBackend([KeyError("lost"), "after"])
    with pytest.raises(KeyError, match="lost"):
        backend.generate(request())
    assert backend.generate(request()).content == "after"


def test_a_handler_answers_each_request_and_may_ask_the_backend_itself() -> None:
    def handler(asked: ChatRequest) -> str:
        text = asked.messages[0].texts()[0]
        return backend.generate(request(text[1:])).content + text[0] if text else ""

    backend = ScriptedBackend(handler)
    assert backend.generate(request("abc")).content == "cba"
    assert len(backend.requests) == 4


@pytest.mark.parametrize(
    "content", ["", "one", "two\nlines\r\n", "\n\n", "odd\x0bbreaks\u2028here", "\ud83d"]
)
def test_deltas_add_up_to_the_answer_with_usage_and_report_once_at_the_end(content: str) -> None:
    report = AsymSpecReport(blocks=3)
    backend = ScriptedBackend([scripted_response(content, report=report)] * 2)
    deltas = list(backend.stream(request()))
    assert "".join(delta.content for delta in deltas) == content
    assert [delta.usage for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert [delta.report for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    whole = backend.generate(request())
    assert whole == collect(iter(deltas))
    assert (whole.content, whole.report, whole.raw_text) == (content, report, content)
    assert whole.usage == Usage(0, len(content.split()))


def test_an_asymspec_request_is_answered_with_a_report_and_a_plain_one_without() -> None:
    backend = ScriptedBackend(["x", "x", "x"])
    asked = AsymSpecRequest(edits=(), mode="strict")
    report = backend.generate(request(asymspec=asked)).report
    assert report == AsymSpecReport(mode="strict")
    pair = AsymSpecRequest(edits=(), gate="cda", delta="none")
    assert backend.generate(request(asymspec=pair)).report == AsymSpecReport(mode="cda+none")
    assert backend.generate(request()).report is None


def test_a_script_may_be_read_by_many_threads() -> None:
    backend = ScriptedBackend([str(index) for index in range(40)])
    answers: list[str] = []

    def ask() -> None:
        answers.extend(backend.generate(request()).content for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=int) == [str(index) for index in range(40)]
