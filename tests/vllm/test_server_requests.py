"""The endpoint plugin in vLLM's own application, over an engine that only records: views and reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the server part needs vLLM", exc_type=ImportError)

from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecRequest, apply_edits
from tests.engine.tiny_folder import FULL, SHORT, WEATHER

from .harness import BODY, CHAT, TEXT, Harness, full_ids
from .stub_server import COUNTS, LIMITS, MAX_MODEL_LEN

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

SIGNATURE = {  # vLLM writes a description into the prompt in any case, null where there is none
    "type": "function",
    "function": {"name": "weather", "description": "", "parameters": {"type": "object"}},
}


def test_both_views_are_rendered_by_the_same_template(harness: Harness) -> None:
    answer = harness.answer(CHAT, BODY)
    compressed = apply_edits(parse_messages(FULL), AsymSpecRequest(edits=list(SHORT)).edits or ())
    call = harness.call
    assert list(call.prompt["prompt_token_ids"]) == harness.ids(compressed)
    assert full_ids(call) == harness.ids(FULL)
    assert answer["choices"][0]["message"]["content"] == "Hello world"
    assert answer["usage"]["prompt_tokens"] == len(harness.ids(compressed))
    assert answer["kv_transfer_params"] is None
    report = {name: value for name, value in COUNTS.items() if name != "cached_tokens"}
    assert answer["asymspec"] == {
        **report,
        "version": 1,
        "verifier_prompt_tokens": len(harness.ids(compressed)),
        "drafter_prompt_tokens": len(harness.ids(FULL)),
        "cached_tokens": {"verifier": 4, "base": 2, "drafter": 3},
        "images": 0,
        "cross_family": None,
    }


def test_whole_messages_may_be_the_compressed_view(harness: Harness) -> None:
    short = [{"role": "user", "content": "Short?"}]
    harness.answer(CHAT, {**BODY, "asymspec": {"messages": short}})
    assert list(harness.call.prompt["prompt_token_ids"]) == harness.ids(short)
    assert full_ids(harness.call) == harness.ids(FULL)


def test_each_view_has_its_own_tools(harness: Harness) -> None:
    body = {**BODY, "tools": [WEATHER], "asymspec": {"edits": [], "tools": [SIGNATURE]}, "max_tokens": 5}
    harness.answer(CHAT, body)
    assert full_ids(harness.call) == harness.ids(FULL, [WEATHER])
    prompt = list(harness.call.prompt["prompt_token_ids"])
    assert prompt == harness.ids(FULL, [SIGNATURE])
    harness.answer(CHAT, {**body, "asymspec": {"edits": [], "tools": []}})
    assert list(harness.call.prompt["prompt_token_ids"]) == harness.ids(FULL)


def test_a_forced_call_keeps_to_the_full_schema(harness: Harness) -> None:
    strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
    body = {**BODY, "tools": [strict], "tool_choice": "required"}
    harness.answer(CHAT, {**body, "asymspec": {"edits": list(SHORT), "tools": [SIGNATURE]}})
    assert "city" in repr(harness.call.params.structured_outputs)


def test_calls_in_the_answer_are_parsed_with_the_full_tools(harness: Harness) -> None:
    written = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    harness.server.engine.pieces = (written,)
    body = {**BODY, "tools": [WEATHER], "asymspec": {"edits": list(SHORT), "tools": [SIGNATURE]}}
    choice = harness.answer(CHAT, body)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}


def test_template_variables_reach_both_views(harness: Harness) -> None:
    harness.answer(CHAT, {**BODY, "chat_template_kwargs": {"mood": "calm"}})
    tokenizer = harness.server.engine.renderer.tokenizer
    for ids in (full_ids(harness.call), list(harness.call.prompt["prompt_token_ids"])):
        assert tokenizer.decode(ids).endswith("[calm]\n")


def test_decoding_is_greedy_whatever_the_servers_defaults(harness: Harness) -> None:
    harness.answer(CHAT, BODY)
    params = harness.call.params
    assert (params.temperature, params.repetition_penalty, params.max_tokens) == (0, 1.0, 9)
    harness.answer(CHAT, {**BODY, "asymspec": {"edits": [], "on_sampling": "greedy"}, "temperature": 0.9})
    assert harness.call.params.temperature == 0


def test_options_and_salt_travel_with_the_request(harness: Harness) -> None:
    options = {"beta": 2.0, "gate": "fixed", "delta": "none", "num_draft_tokens": 1}
    body = {**BODY, "asymspec": {"edits": [], **options}, "cache_salt": "mine", "session_id": "s1"}
    harness.answer(CHAT, body)
    assert harness.call.asymspec["options"] == options
    assert harness.call.asymspec["salt"] == "mine"
    assert harness.call.prompt["cache_salt"] == "mine"
    assert harness.call.kwargs["session_id"] == "s1"
    harness.answer(CHAT, {**BODY, "cache_salt": ""})
    assert harness.call.asymspec["salt"] is None


def test_identical_views_are_reported(harness: Harness) -> None:
    report = harness.answer(CHAT, {**BODY, "asymspec": {"edits": []}})["asymspec"]
    assert (report["mode"], report["fallback"]) == ("strict", "identical_views")
    kept = {"edits": [], "identical_views": "gate"}
    report = harness.answer(CHAT, {**BODY, "asymspec": kept})["asymspec"]
    assert (report["mode"], report["fallback"]) == ("asymspec", None)


def test_broken_unicode_does_not_stop_an_agent(harness: Harness) -> None:
    messages = [{"role": "user", "content": "tool said \ud800 then stopped"}]
    edits = [{"message": 0, "text": "said \udfff"}]
    body = json.dumps({"messages": messages, "asymspec": {"edits": edits}, "max_tokens": 3}).encode("ascii")
    assert harness.post(CHAT, body).status_code == 200
    assert "�" in harness.server.engine.renderer.tokenizer.decode(full_ids(harness.call))


@pytest.mark.parametrize("prompt", ["a longer text", [5, 6, 7]])
@pytest.mark.parametrize("short", ["text", [8]])
def test_completions_take_texts_and_ids(harness: Harness, prompt: Any, short: Any) -> None:
    answer = harness.answer(TEXT, {"prompt": prompt, "asymspec": {"prompt": short}})
    tokenizer = harness.server.engine.renderer.tokenizer

    def ids(given: Any) -> list[int]:
        return list(tokenizer.encode(given)) if isinstance(given, str) else given

    assert full_ids(harness.call) == ids(prompt)
    assert list(harness.call.prompt["prompt_token_ids"]) == ids(short)
    assert harness.call.params.max_tokens == 16  # vLLM's own default
    assert answer["choices"][0]["text"] == "Hello world"
    assert answer["asymspec"]["drafter_prompt_tokens"] == len(ids(prompt))


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_stream_reports_where_it_finishes(harness: Harness, path: str) -> None:
    own = BODY if path == CHAT else {"prompt": "abc", "asymspec": {"prompt": "b"}}
    body = {**own, "stream": True, "stream_options": {"include_usage": True}}
    response = harness.post(path, body)
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = events(response.text)
    finished = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"]]
    assert [chunk for chunk in chunks if "asymspec" in chunk] == finished
    assert len(finished) == 1
    assert finished[0]["asymspec"]["accepted"] == COUNTS["accepted"]
    assert chunks[-1]["usage"]["completion_tokens"] > 0


def test_without_the_object_nothing_is_ours(harness: Harness) -> None:
    plain = {name: value for name, value in BODY.items() if name != "asymspec"}
    for body in (plain, {**plain, "asymspec": None}, {**plain, "metadata": {"note": '"asymspec"'}}):
        answer = harness.answer(CHAT, body)
        assert "asymspec" not in answer
        assert harness.call.asymspec is None
        assert harness.call.params.repetition_penalty == 1.2  # the server's own default holds
        assert list(harness.call.prompt["prompt_token_ids"]) == harness.ids(FULL)


def test_a_client_that_leaves_ends_the_engines_work(harness: Harness) -> None:
    engine = harness.server.engine
    engine.is_endless = True
    before = engine.num_aborted

    async def leave() -> None:
        """Reads the beginning of a stream, then closes the connection, as an ASGI server would tell it."""
        body = json.dumps({**BODY, "stream": True}).encode()
        received = asyncio.Event()
        requests = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in requests:
                return message
            await received.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body" and b"world" in message.get("body", b""):
                received.set()
            await asyncio.sleep(0)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": CHAT,
            "raw_path": CHAT.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"stub")],
            "client": ("127.0.0.1", 1),
            "server": ("stub", 80),
        }
        await harness.server.app(scope, receive, send)

    async def gone() -> None:
        await leave()
        while engine.num_aborted == before:
            await asyncio.sleep(0.01)

    harness.loop.run_until_complete(asyncio.wait_for(gone(), 60))
    assert engine.num_aborted == before + 1


def test_the_handshake(harness: Harness) -> None:
    info = harness.get("/v1/asymspec").json()
    assert (info["version"], info["verifier"], info["drafter"]) == (1, "pair", "drafter")
    assert info["max_verifier_tokens"] == MAX_MODEL_LEN - 1
    assert info["max_drafter_tokens"] == LIMITS.max_full_len - 1
    assert "asymspec" in info["modes"]
    assert info["tokenize"] is True
    count = harness.post("/tokenize", {"messages": list(FULL)}).json()["count"]
    assert count == len(harness.ids(FULL))


def sample(text: str, name: str) -> float:
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def test_metrics_count_what_was_answered(harness: Harness) -> None:
    def counts() -> Callable[[str], float]:
        text = harness.get("/metrics").text
        return lambda name: sample(text, name)

    before = counts()
    harness.answer(CHAT, BODY)
    harness.error(CHAT, {**BODY, "n": 2})
    after = counts()

    def grown(name: str) -> float:
        return after(name) - before(name)

    assert grown('asymspec_requests_total{arm="asymspec",mode="asymspec",outcome="finished"}') == 1
    assert grown('asymspec_tokens_total{kind="drafted"}') == COUNTS["drafted"]
    assert grown('asymspec_cached_prompt_tokens_total{view="drafter"}') == 3
    assert grown('asymspec_refusals_total{code="unsupported_value"}') == 1
    assert grown("asymspec_divergence_nats_count") == 1
