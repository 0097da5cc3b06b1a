"""What the endpoint plugin refuses, in which form, and what it answers by the verifier alone instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the server part needs vLLM", exc_type=ImportError)

from tests.engine.tiny_folder import FULL

from .harness import BODY, CHAT, TEXT, Harness
from .stub_server import LIMITS, MAX_MODEL_LEN

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

LONG = [{"role": "user", "content": "x" * 1500}]
MIDDLE = [{"role": "user", "content": "x" * 600}]


@pytest.mark.parametrize(
    ("body", "view", "limit"),
    [
        ({"messages": LONG, "asymspec": {"messages": list(FULL)}}, "full", LIMITS.max_full_len),
        ({"messages": MIDDLE, "asymspec": {"edits": []}}, "compressed", MAX_MODEL_LEN),
        ({**BODY, "max_tokens": MAX_MODEL_LEN}, "compressed", MAX_MODEL_LEN),
        ({**BODY, "max_completion_tokens": 5000, "max_tokens": None}, "compressed", MAX_MODEL_LEN),
    ],
)
def test_a_view_without_room_names_its_limit(
    harness: Harness, body: dict[str, Any], view: str, limit: int
) -> None:
    error = harness.error(CHAT, body)
    assert (error["code"], error["view"], error["limit"]) == ("context_length_exceeded", view, limit)
    assert error["num_tokens"] > limit


def test_the_verifier_answers_alone_where_that_was_asked(harness: Harness) -> None:
    body = {
        "messages": LONG,
        "asymspec": {"messages": list(FULL), "on_unsupported": "verifier"},
        "max_tokens": 4,
    }
    report = harness.answer(CHAT, body)["asymspec"]
    assert (report["mode"], report["fallback"]) == ("floor", "full_view_overflow")
    assert harness.call.asymspec is None
    assert list(harness.call.prompt["prompt_token_ids"]) == harness.ids(FULL)
    assert harness.call.params.repetition_penalty == 1.0
    too_long = {**body, "asymspec": {"messages": MIDDLE, "on_unsupported": "verifier"}}
    assert harness.error(CHAT, too_long)["view"] == "compressed"


def test_without_a_limit_the_answer_may_fill_what_both_views_leave(harness: Harness) -> None:
    for content in ("y", "x" * 1_200):
        full = [{"role": "user", "content": content}]
        body = {"messages": full, "asymspec": {"messages": list(FULL)}}
        harness.answer(CHAT, body)
        rooms = (
            MAX_MODEL_LEN - len(harness.ids(FULL)),
            LIMITS.max_full_len - len(harness.ids(full)),
        )
        assert harness.call.params.max_tokens <= min(rooms)
        one_more = harness.error(CHAT, {**body, "max_tokens": harness.call.params.max_tokens + 1})
        assert one_more["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("path", "body", "code", "param"),
    [
        (CHAT, {**BODY, "asymspec": 5}, "invalid_value", "asymspec"),
        (CHAT, {**BODY, "asymspec": {}}, "invalid_value", "asymspec"),
        (CHAT, {**BODY, "asymspec": {"edits": [], "beta": 9}}, "invalid_value", "asymspec.beta"),
        (CHAT, {**BODY, "asymspec": {"edits": [], "mode": "x"}}, "invalid_value", "asymspec"),
        (CHAT, {**BODY, "asymspec": {"edits": [{"message": 9, "text": ""}]}}, "invalid_messages", None),
        (CHAT, {**BODY, "messages": []}, "invalid_messages", "messages"),
        (CHAT, {**BODY, "temperature": 0.5}, "unsupported_value", "temperature"),
        (CHAT, {**BODY, "n": 2}, "unsupported_value", "n"),
        (CHAT, {**BODY, "logprobs": True}, "unsupported_value", "logprobs"),
        (CHAT, {**BODY, "top_k": "many"}, "invalid_value", "top_k"),
        (CHAT, {**BODY, "vllm_xargs": {"asymspec": "x"}}, "unsupported_value", "vllm_xargs.asymspec"),
        (CHAT, {"messages": [], "vllm_xargs": {"asymspec": 1}}, "unsupported_value", "vllm_xargs.asymspec"),
        (TEXT, {"prompt": ["a", "b"], "asymspec": {"prompt": "a"}}, "invalid_value", "prompt"),
        (TEXT, {"prompt": [], "asymspec": {"prompt": "a"}}, "invalid_value", None),
        (TEXT, {"prompt": "a", "asymspec": {"prompt": ""}}, "invalid_value", None),
        (TEXT, {"prompt": [1], "asymspec": {"prompt": [99_999]}}, "invalid_value", None),
        (TEXT, {"prompt": "a", "asymspec": {"prompt": "a"}, "echo": True}, "unsupported_value", "echo"),
        (TEXT, b'{"prompt": "a", "asymspec": {"prompt": "b", "beta": NaN}}', "invalid_messages", None),
        (TEXT, b'{"prompt": "a", "asymspec": ', "invalid_messages", None),
    ],
)
def test_a_bad_request_is_refused_in_openais_form(
    harness: Harness, path: str, body: Any, code: str, param: str | None
) -> None:
    error = harness.error(path, body)
    assert error["type"] == "invalid_request_error"
    assert error["code"] == code
    if param is not None:
        assert (error["param"] or "").startswith(param)
    assert error["message"]


def test_vllms_own_refusals_come_through(harness: Harness) -> None:
    assert harness.error(CHAT, {**BODY, "model": "other"}, 404)["type"] == "NotFoundError"
    response = harness.post(CHAT, json.dumps(BODY).encode(), headers={"content-type": "text/plain"})
    assert response.status_code == 400


def test_images_are_refused_by_name(harness: Harness) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    body = {**BODY, "messages": [{"role": "user", "content": parts}], "asymspec": {"edits": []}}
    response = harness.post(CHAT, body)
    assert response.status_code == 400


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_client_gone_in_the_middle_of_its_request_is_no_error(harness: Harness, path: str) -> None:
    """The application raises nothing, and the engine hears nothing of it."""
    messages: list[Any] = []
    parts = iter([{"type": "http.request", "body": b'{"asymspec": {', "more_body": True}])
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "server": ("stub", 80),
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"900")],
    }

    async def receive() -> Any:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        messages.append(message)

    before = len(harness.server.engine.calls)
    harness.loop.run_until_complete(harness.server.app(scope, receive, send))
    assert messages[0]["status"] == 499
    assert len(harness.server.engine.calls) == before
