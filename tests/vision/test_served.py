"""Images over HTTP: a server and HTTPBackend answer as the engine does, and refuse what it refuses."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from asymspec_agents.backends import ChatRequest, HTTPBackend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.cli import frame
from asymspec_agents.cli import main as cli
from asymspec_agents.default_router import router_for
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.messages import parse_messages
from asymspec_agents.recording import NULL_RECORDER
from tests.engine.tiny_folder import random_backend
from tests.server.serving import WAIT_S, serving

from .images import captioned, image_part, noise, text_part
from .pairs import CHAT, ask, backend_of, pair_folders

CHATS = "/v1/chat/completions"
SEEN = {"role": "user", "content": [image_part(noise(1)), text_part("What is it?")]}
LIMITS = VisionOptions(max_images=3, max_image_pixels=2_000)


@functools.cache
def backend() -> LocalBackend:
    return backend_of("qwen2_vl", EngineOptions(vision=LIMITS))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving({"large": backend(), "small": backend().with_arm("drafter")}) as url:
        yield url


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {
        "messages": list(messages),
        "asymspec": {"edits": captioned(messages)},
        "max_tokens": 8,
        "temperature": 0,
        **fields,
    }


def post(url: str, content: dict[str, Any]) -> httpx.Response:
    return httpx.post(url + CHATS, json=content, timeout=WAIT_S)


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_over_http_is_the_engines(url: str, is_stream: bool) -> None:
    client = HTTPBackend(f"{url}/v1")
    assert client.capabilities.sees_images
    request = ask(CHAT)
    wanted = backend().generate(request)
    if is_stream:
        deltas = list(client.stream(request))
        text, report = "".join(delta.content for delta in deltas), deltas[-1].report
    else:
        got = client.generate(request)
        text, report = got.content, got.report
    assert report is not None
    assert wanted.report is not None
    assert text == wanted.content
    assert (report.images, report.fallback) == (3, None)
    assert report.drafter_prompt_tokens == wanted.report.drafter_prompt_tokens
    assert len(report.accepted_per_position) == 5
    assert report.cached_tokens.drafter == report.drafter_prompt_tokens - 1  # the images with it
    client.close()


def test_the_handshake_says_who_sees(url: str) -> None:
    said = httpx.get(url + "/v1/asymspec", timeout=WAIT_S).json()
    assert said["sees_images"] is True
    assert (said["max_images"], said["max_image_pixels"]) == (3, 2_000)
    client = HTTPBackend(f"{url}/v1")
    assert client.capabilities == replace(backend().capabilities, verifier="large", drafter=said["drafter"])
    client.close()
    with serving(random_backend()) as blind:
        said = httpx.get(blind + "/v1/asymspec", timeout=WAIT_S).json()
    assert said["sees_images"] is False
    assert said["max_images"] is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (body(SEEN, asymspec={"edits": captioned([SEEN])}, temperature=0.7), "temperature"),
        (body({"role": "user", "content": [image_part(b"no picture")]}), "the data are no image of a format"),
        (
            body({"role": "user", "content": [image_part(noise(1, 60, 60))]}),
            "over the limit of max_image_pixels=2,000",
        ),
        (
            body({"role": "user", "content": [image_part(noise(seed)) for seed in range(4)]}),
            "4 different images, over the limit of max_images=3",
        ),
        (
            body(
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}],
                },
                asymspec={"edits": []},
            ),
            "it is a URL, and URLs are not fetched",
        ),
        ({"messages": [SEEN], "max_tokens": 4}, "nobody sees this image"),
    ],
    ids=["sampling", "broken", "large", "many", "url", "plain"],
)
def test_refusals_are_400s(url: str, content: dict[str, Any], text: str) -> None:
    answer = post(url, content)
    assert answer.status_code == 400, answer.text
    assert text in answer.json()["error"]["message"]
    assert post(url, body(SEEN)).json()["asymspec"]["images"] == 1  # it answers as before


def test_a_blind_server_says_what_stood_for_the_images() -> None:
    with serving(random_backend()) as url:
        answer = post(url, body(SEEN, {"role": "user", "content": "So?"})).json()
        assert answer["asymspec"]["fallback"] == "images_as_text, identical_views"
        assert answer["asymspec"]["images"] == 0
        assert post(url, body(SEEN, asymspec={"edits": []})).status_code == 400


def test_the_drafter_alone_is_asked_under_its_name(url: str) -> None:
    plain = {"messages": [SEEN], "model": "small", "max_tokens": 6}
    assert post(url, plain).status_code == 200


def test_tokens_are_counted_as_the_drafter_sees_them(url: str) -> None:
    client = HTTPBackend(f"{url}/v1")
    messages = parse_messages([SEEN])
    assert client.count_prompt(messages) == backend().count_prompt(messages)
    told = httpx.post(url + "/tokenize", json={"messages": [SEEN]}, timeout=WAIT_S).json()
    assert told["count"] == len(told["tokens"]) == backend().count_prompt(messages)
    assert all(token >= 0 for token in told["tokens"])
    client.close()


def test_the_default_router_keeps_images_for_who_sees_them(url: str) -> None:
    client = HTTPBackend(f"{url}/v1")
    broken = image_part(b"\x89PNG\r\n\x1a\n" + b"x" * 40)
    messages = [{"role": "user", "content": [image_part(noise(1)), broken, text_part("What is it?")]}]
    routed = router_for(client, None, NULL_RECORDER).route(messages)
    first, second, third = routed.full[0].content
    assert first.type == "image_url"
    assert second.text.startswith("[image: PNG, ")  # which the server would refuse
    assert third.text == "What is it?"
    report = client.generate(
        ChatRequest(messages=routed.full, asymspec=routed.request(None), max_tokens=6)
    ).report
    assert report is not None
    assert (report.images, report.fallback) == (1, None)
    blind = router_for(random_backend(), None, NULL_RECORDER).route(messages)
    assert [part.type for part in blind.full[0].content] == ["text"] * 3
    client.close()


def test_serve_takes_a_number_of_images_for_a_drafter_that_sees(capsys: pytest.CaptureFixture[str]) -> None:
    parser = frame._parser(cli.COMMANDS, "asymspec", "")
    assert parser.parse_args(["serve", "--max-images", "3"]).max_images == 3
    verifier = str(pair_folders("qwen2_vl")[0])
    command = ["serve", "--port", "0", "--verifier", verifier, "--drafter", verifier]
    assert cli.main([*command, "--max-images", "3"]) == 2
    assert f"--max-images=3: the drafter {verifier} sees no images" in capsys.readouterr().err


def test_a_body_says_nothing_of_its_images_in_errors(url: str) -> None:
    secret = image_part(b"secret bytes of somebody")
    text = json.dumps(post(url, body({"role": "user", "content": [secret]})).json())
    assert secret["image_url"]["url"].split(",")[1] not in text
