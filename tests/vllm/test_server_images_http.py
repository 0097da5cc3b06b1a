"""Images over HTTP to the real server, through all of vLLM's processes: every token is the naive rule's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

pytest.importorskip("vllm", reason="the server is vLLM's", exc_type=ImportError)

from asymspec_agents.backends import HTTPBackend
from asymspec_agents.protocol import AsymSpecOptions

from .oracle import Seen
from .served import serving
from .test_server_images import CAPTION, KIND, chat, data_url, expected, text
from .vision_models import save_vision_pair, vision_tokenizer
from .vision_oracle import Scene, picture, vision_oracle

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]

SHAPES = ((40, 24), (64, 64), (16, 48))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    limits = ("--num-draft-tokens", "4", "--max-images", "3", "--max-image-pixels", "4096")
    with serving(folder, *save_vision_pair(folder, KIND), *limits, "--block-size", "32") as url:
        yield url


def answer(url: str, body: dict[str, Any]) -> dict[str, Any]:
    fields = {"model": "pair", "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    response = httpx.post(f"{url}/v1/chat/completions", json={**body, **fields}, timeout=300)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def scene_of(body: dict[str, Any], seeds: Sequence[int]) -> Scene:
    """The full view, with the pixels that the drafter should see."""
    pictures = tuple(picture(seed, *SHAPES[seed % len(SHAPES)]) for seed in seeds)
    urls = [data_url(seed, *SHAPES[seed % len(SHAPES)]) for seed in seeds]
    ids = tuple(expected(body["messages"], urls))
    return Scene(ids, pictures, KIND.look(pictures).pixels if pictures else {})


def captions(num: int) -> tuple[list[int], list[int]]:
    """The compressed view of a request by `chat`, as the verifier and as the drafter reads it."""
    told = "".join(f"\n{CAPTION} {at}" for at in range(num))
    content = f"Look: {told}\n what is it?"
    messages = [{"role": "user", "content": content}]
    prompt = vision_tokenizer().apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    own = expected([{"role": "user", "content": [text(content)]}], [])
    return list(vision_tokenizer().encode(prompt, add_special_tokens=False)), own


def test_many_at_once_with_and_without_images(url: str) -> None:
    cases = [[1], [2, 3], [3], [4, 5, 3], [1], [6, 1]]
    bodies = [
        chat(*[data_url(seed, *SHAPES[seed % len(SHAPES)]) for seed in seeds], max_tokens=24)
        for seeds in cases
    ]
    plain = {"messages": [{"role": "user", "content": "Hello " * 20}], "max_tokens": 20}
    short = {**plain, "asymspec": {"edits": [{"message": 0, "text": "Hello?"}]}}
    with ThreadPoolExecutor(8) as pool:
        *answers, unsteered, steered = pool.map(lambda body: answer(url, body), [*bodies, plain, short])
    oracle, seen = vision_oracle(KIND), Seen()
    for seeds, body, told in zip(cases, bodies, answers, strict=True):
        report = told["asymspec"]
        scene = scene_of(body, seeds)
        oracle.look(scene)
        tokens = told["choices"][0]["token_ids"]
        prompt, base = captions(len(seeds))
        assert told["prompt_token_ids"] == prompt != base
        options = AsymSpecOptions.of(num_draft_tokens=4)
        oracle.check(scene.ids, prompt, options, tokens, seen, base_ids=base)
        assert (len(tokens), report["images"], report["fallback"]) == (24, len(seeds), None)
        assert report["drafter_prompt_tokens"] == len(scene.ids)
        assert len(report["accepted_per_position"]) == 5  # four drafts a block, and the rule's own
    seen.check_excuses()
    assert "asymspec" not in unsteered
    assert steered["asymspec"]["images"] == 0
    assert len(steered["asymspec"]["accepted_per_position"]) == 3


def test_the_next_turn_reads_its_new_tokens_only(url: str) -> None:
    first = chat(data_url(7, *SHAPES[1]), max_tokens=3)
    cached = [answer(url, first)["asymspec"]["cached_tokens"]["drafter"] for _ in range(2)]
    assert cached[0] == 0
    assert cached[1] > 0
    other = chat(data_url(10, *SHAPES[1]), max_tokens=3)  # as many tokens, another image
    told = answer(url, other)["asymspec"]
    assert told["drafter_prompt_tokens"] == len(scene_of(first, [7]).ids)
    assert told["cached_tokens"]["drafter"] < cached[1]


def test_the_client_learns_what_the_server_sees_and_refuses(url: str) -> None:
    backend = HTTPBackend(url)
    assert backend.capabilities.sees_images
    backend.close()
    response = httpx.post(
        f"{url}/v1/chat/completions", json={**chat(*[data_url(i) for i in range(4)]), "model": "pair"}
    )
    assert response.status_code == 400
    assert "max_images=3" in response.json()["error"]["message"]
