"""A drafter of another family whose chat template has no place for tools reads them as the verifier does."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from asymspec_agents.backends.prompts import DrafterPrompts, PromptMaker
from asymspec_agents.backends.request import ChatRequest
from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.messages import Message
from tests.decoding.made_tokenizers import made, transcriber, vocabulary

from .tiny_folder import WEATHER, ask
from .two_families import two_family_engine

WITH_TOOLS = "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
EDITS = [{"message": 0, "text": "Rain?"}]


def _template(family: str, *, shows_tools: bool) -> ChatTemplate:
    tokenizer = copy.deepcopy(made(family))
    if shows_tools:
        tokenizer.chat_template = WITH_TOOLS + str(tokenizer.chat_template)
    return ChatTemplate(tokenizer)


def _request(**fields: Any) -> ChatRequest:
    messages = [Message(role="user", content="What is the weather in 東京 at 12 on Friday?")]
    return ask(messages, edits=EDITS, **{"tools": (WEATHER,), **fields})


@pytest.fixture
def verifier() -> PromptMaker:
    engine = two_family_engine("words", "digits")
    return PromptMaker(_template("words", shows_tools=True), engine.vocab_size, "large")


def _drafter(verifier: PromptMaker, *, shows_tools: bool) -> DrafterPrompts:
    family = two_family_engine("words", "digits").family
    assert family is not None
    template = _template("digits", shows_tools=shows_tools)
    return DrafterPrompts(template, family, "small", verifier.template)


def test_it_reads_what_the_verifier_reads_in_its_own_tokens(verifier: PromptMaker) -> None:
    request = _request()
    prompts = verifier.prompts(request)
    drafter = _drafter(verifier, shows_tools=False)
    assert drafter.reads_verifiers(request)
    own = drafter.beside(request, prompts)
    assert (own.full, own.compressed) == (prompts.full, prompts.compressed)
    assert b"weather" in transcriber("words", "digits").drafter.spelled(own.drafter_full or ())
    for mine, theirs in ((own.drafter_full, own.full), (own.drafter_compressed, own.compressed)):
        assert _turns(mine or (), "digits", "[/S]") == _turns(theirs, "words", "<|im_end|>")


def _turns(ids: Sequence[int], family: str, end: str) -> list[bytes]:
    """What stands between the ends of turns, without special tokens' names."""
    found = vocabulary(family)
    pieces = [
        b"\0" if found.spelling(i) == end.encode() and i in found.special else found.spelling(i) for i in ids
    ]
    text = b"".join(pieces).replace(b"<|im_start|>", b"")
    return text.split(b"\0")


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": ()}])
def test_without_tools_it_reads_by_its_own_template(verifier: PromptMaker, fields: dict[str, Any]) -> None:
    request = _request(**fields)
    drafter = _drafter(verifier, shows_tools=False)
    assert not drafter.reads_verifiers(request)
    own = drafter.beside(request, verifier.prompts(request))
    assert list(own.drafter_full or ()) == _template("digits", shows_tools=False).ids(request.messages)


def test_a_template_that_shows_tools_is_the_drafters_own(verifier: PromptMaker) -> None:
    request = _request()
    drafter = _drafter(verifier, shows_tools=True)
    assert not drafter.reads_verifiers(request)
    own = drafter.beside(request, verifier.prompts(request))
    template = _template("digits", shows_tools=True)
    assert list(own.drafter_full or ()) == template.ids(request.messages, request.tools)
