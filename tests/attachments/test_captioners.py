"""Captioners: what is asked of an endpoint, what is tried again, and what is told of failures."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from asymspec_agents.attachments import Attachments, EndpointCaptioner, TransformersCaptioner
from asymspec_agents.errors import BackendError, ConfigurationError
from tests.attachments.files import image, image_part, shown

GOOD = {"choices": [{"message": {"content": " A red\n square. "}}]}


class Handler(BaseHTTPRequestHandler):
    answers: list[tuple[int, Any]]
    bodies: list[dict[str, Any]]
    keys: list[str | None]

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.keys.append(self.headers["Authorization"])
        status, answer = self.answers.pop(0)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.answers, Handler.bodies, Handler.keys = [], [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked_greedily_and_again_when_it_is_busy(url: str) -> None:
    Handler.answers = [(503, {}), (200, GOOD)]
    captioner = EndpointCaptioner(base_url=url, model="see", api_key="key-123")
    with Attachments(captioner=captioner) as attachments:
        text = shown(attachments, image_part(image()))
        assert shown(attachments, image_part(image())) == text
    assert text.endswith("]\nShows: A red square.")
    assert len(Handler.bodies) == 2
    assert Handler.keys == ["Bearer key-123"] * 2
    body = Handler.bodies[-1]
    assert (body["model"], body["temperature"]) == ("see", 0)
    assert body["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "key-123" not in repr(captioner) + captioner.configuration


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([(401, {"error": "key-123"})], "status 401"),
        ([(500, {})] * 2, "status 500"),
        ([(200, {"choices": []})], "something else than a caption"),
        ([(200, {"choices": [{"message": {"content": None}}]})], "without a caption"),
        ([(200, "text")], "something else than a caption"),
    ],
)
def test_failures_are_bounded_and_quote_nothing(url: str, answers: list[tuple[int, Any]], why: str) -> None:
    Handler.answers = list(answers)
    captioner = EndpointCaptioner(base_url=url, model="see", api_key="key-123", max_retries=1)
    with pytest.raises(BackendError, match=why) as raised:
        captioner.describe(image())
    assert "key-123" not in str(raised.value)
    assert len(Handler.bodies) == len(answers)


def test_an_unreachable_endpoint_is_given_up() -> None:
    captioner = EndpointCaptioner(base_url="http://127.0.0.1:9", model="see", max_retries=0)
    with pytest.raises(BackendError, match="ConnectError"):
        captioner.describe(image())


def test_an_image_beyond_the_limit_is_made_smaller_or_refused(url: str) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((200, 200), 90).convert("RGB").save(buffer, "PNG")
    Handler.answers = [(200, GOOD)]
    EndpointCaptioner(base_url=url, model="see", max_image_bytes=30_000).describe(buffer.getvalue())
    sent = Handler.bodies[0]["messages"][0]["content"][1]["image_url"]["url"]
    assert sent.startswith("data:image/jpeg;base64,")
    with pytest.raises(BackendError, match="larger than 10 bytes"):
        EndpointCaptioner(base_url=url, model="see", max_image_bytes=10).describe(buffer.getvalue())


@pytest.mark.parametrize("options", [{"base_url": "ftp://x"}, {"max_retries": -1}, {"timeout_s": 0}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        EndpointCaptioner(**{"base_url": "http://127.0.0.1", "model": "see", **options})


def test_a_model_of_transformers_captions(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    small = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = transformers.BlipConfig(
        text_config={
            **small,
            "vocab_size": len(words),
            "encoder_hidden_size": 16,
            "bos_token_id": 2,
            "pad_token_id": 0,
            "sep_token_id": 3,
            "eos_token_id": 3,
        },
        vision_config={**small, "image_size": 32, "patch_size": 16},
        projection_dim=16,
    )
    transformers.BlipForConditionalGeneration(config).save_pretrained(tmp_path)
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    transformers.BlipProcessor(images, tokenizer).save_pretrained(tmp_path)
    captioner = TransformersCaptioner(str(tmp_path), max_tokens=5)
    first = captioner.describe(image())
    assert captioner.describe(image()) == first
    assert isinstance(first, str)
