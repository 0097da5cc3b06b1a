"""One stub server for all tests that need one: making vLLM's application takes seconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def shared_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """vLLM's application with the plugin; its server defaults would sample, with a penalty."""
    from .harness import Harness
    from .models import save_pair
    from .stub_server import stub_server

    verifier, drafter = save_pair(tmp_path_factory.mktemp("stub"))
    (verifier / "generation_config.json").write_text('{"repetition_penalty": 1.2, "temperature": 0.7}')
    loop = asyncio.new_event_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_PLUGINS", "asymspec")
        flags = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
        server = loop.run_until_complete(stub_server(verifier, drafter, *flags))
    yield Harness(server, loop)
    server.engine.renderer.shutdown()
    loop.close()


@pytest.fixture(scope="session")
def seeing_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same with a drafter that sees images, of a kind that needs no torchvision."""
    from .harness import Harness
    from .stub_server import stub_server
    from .vision_models import KINDS, save_vision_pair

    verifier, drafter = save_vision_pair(tmp_path_factory.mktemp("seeing"), KINDS["idefics3"])
    loop = asyncio.new_event_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_PLUGINS", "asymspec")
        settings = {"asymspec": {"max_images": 2, "max_image_pixels": 10_000}}
        flags = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
        server = loop.run_until_complete(
            stub_server(verifier, drafter, *flags, "--additional-config", json.dumps(settings))
        )
    yield Harness(server, loop)
    server.engine.renderer.shutdown()
    loop.close()


@pytest.fixture
def harness(shared_harness: Any) -> Iterator[Any]:
    """The same, with its usual answer."""
    yield shared_harness
    shared_harness.server.engine.pieces = ("Hello", " world")
    shared_harness.server.engine.is_endless = False
