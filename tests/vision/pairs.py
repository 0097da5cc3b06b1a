"""One loaded pair of each family for all tests of a run, with the oracle of its drafter."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asymspec_agents.backends import ChatRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.load import load_pair
from asymspec_agents.engine.vision.model import SeeingModel
from asymspec_agents.engine.vision.prompt import SeeingPrompts
from asymspec_agents.protocol import AsymSpecRequest
from asymspec_agents.recording import NULL_RECORDER, Recorder

from .families import save_seeing_pair
from .images import captioned, image_part, noise, text_part
from .oracle import Oracle

__all__ = ["CALL", "CHAT", "SeeingPair", "ask", "backend_of", "pair_folders", "seeing_pair"]

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT: tuple[Mapping[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [text_part("Compare "), image_part(noise(1)), text_part(" with the log.")]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": [image_part(noise(2, 16, 32)), image_part(noise(3)), text_part("seen")],
    },
    {"role": "user", "content": "So?"},
)
"""A conversation with three images, in a user's and in a tool's message, two of them side by side."""

_FOLDERS = tempfile.TemporaryDirectory(prefix="asymspec-vision-")


@dataclass(frozen=True)
class SeeingPair:
    """A backend over the pair, its drafter, what makes the drafter's prompts, and the oracle."""

    backend: LocalBackend
    drafter: SeeingModel
    prompts: SeeingPrompts
    oracle: Oracle


@functools.cache
def pair_folders(family: str) -> tuple[Path, Path]:
    """The folders of the family's verifier and drafter."""
    return save_seeing_pair(Path(_FOLDERS.name) / family, family)


def backend_of(
    family: str, options: EngineOptions | None = None, recorder: Recorder = NULL_RECORDER
) -> LocalBackend:
    """A backend of its own over the family's pair."""
    verifier, drafter = pair_folders(family)
    pair = load_pair(verifier, drafter, dtype="float32", device="cpu", options=options, recorder=recorder)
    return LocalBackend(pair.engine, pair.template, seeing=pair.seeing)


@functools.cache
def seeing_pair(family: str) -> SeeingPair:
    """The family's pair, shared by all tests: caches hold what earlier ones left."""
    backend = backend_of(family)
    drafter = backend.engine.models["drafter"]
    assert isinstance(drafter, SeeingModel)
    assert backend._seeing is not None
    return SeeingPair(backend, drafter, backend._seeing, Oracle(pair_folders(family)[1]))


def ask(
    messages: Sequence[Any] = CHAT,
    *,
    edits: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> ChatRequest:
    """A request with captions in place of its images in the compressed view, or with these edits."""
    given = captioned(messages) if edits is None else edits
    asymspec = AsymSpecRequest.model_validate({"edits": given, **(options or {})})
    return ChatRequest(messages=tuple(messages), asymspec=asymspec, **{"max_tokens": 12, **fields})
