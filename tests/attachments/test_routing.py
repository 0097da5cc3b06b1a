"""Attachments in the router: both views, their promises, and what the report counts."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from asymspec_agents import ContextRouter, ViewPolicy
from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.messages import Message
from tests.attachments.files import file_part, image, image_part, pdf, xlsx

WORDS = ["tea", "milk", "sugar", "harbour", "engine", "winter", "ledger", "copper"]


def _report(num_paragraphs: int = 200, seed: int = 0) -> bytes:
    chosen = random.Random(seed)
    lines = [" ".join(chosen.choices(WORDS, k=30)) + "." for _ in range(num_paragraphs)]
    lines[77] = "The keeper of the lighthouse is called Marit Solheim."
    return "\n\n".join(lines).encode()


def _ask(*parts: dict[str, Any], text: str = "Who keeps the lighthouse?") -> dict[str, Any]:
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def _turn(number: int, content: Any) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "open", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": content},
    ]


def _part(message: Message, number: int) -> str:
    assert isinstance(message.content, tuple)
    part = message.content[number]
    assert part.type == "text"
    assert part.text is not None
    return part.text


def test_a_document_is_whole_for_the_drafter_and_short_for_the_verifier() -> None:
    data = _report()
    routed = ContextRouter().route([_ask(file_part(data, "lighthouses.txt"))])
    full, short = _part(routed.full[0], 0), _part(routed.compressed[0], 0)
    head = full.partition("\n")[0]
    assert head.startswith('[file "lighthouses.txt": text, ')
    assert full == f"{head}\n{data.decode()}"
    assert short.startswith(head + "\n")
    assert "Marit Solheim" in short  # the question beside it is the query
    assert len(short) < 0.4 * len(full)
    assert [(edit.message, edit.part) for edit in routed.edits] == [(0, 0)]
    report = routed.report
    assert (report.num_documents, report.num_images, report.num_degraded_attachments) == (1, 0, 0)


def test_the_header_stays_in_every_tier_above_the_marker() -> None:
    messages = [_ask(text="Go"), *_turn(0, [file_part(_report(), "lighthouses.txt")])]
    for number in range(1, 12):
        messages += _turn(number, " ".join(random.Random(number).choices(WORDS, k=300)))
    texts = []
    for budget in (None, 4_000, 1_500, 800):
        routed = ContextRouter(ViewPolicy(max_verifier_tokens=budget)).route(messages)
        texts.append(_part(routed.compressed[2], 0))
    assert len(set(map(len, texts))) >= 3
    assert texts == sorted(texts, key=len, reverse=True)
    for text in texts:
        is_marker = text.startswith("[… ") or text == "…"
        assert is_marker or text.startswith('[file "lighthouses.txt": text, ')


def test_what_a_rendition_refers_to_is_in_the_store() -> None:
    router = ContextRouter()
    data = _report()
    routed = router.route([_ask(file_part(data, "a.txt"))])
    short = _part(routed.compressed[0], 0)
    references = {piece[:19] for piece in short.split() if piece.startswith("sha256:")}
    assert references
    for reference in references:
        assert router.store.get(reference) == data


@pytest.mark.parametrize("sees", ["text", "images"])
def test_images(sees: Any) -> None:
    attachments = Attachments(AttachmentPolicy(drafter_sees=sees))
    given = [_ask(image_part(image()), text="What is it?"), *_turn(0, [image_part(image())])]
    routed = ContextRouter(attachments=attachments).route(given)
    for message, part in ((0, 0), (2, 0)):
        assert _part(routed.compressed[message], part).startswith("[image: PNG, 40×30, ")
    if sees == "images":
        assert [message.wire() for message in routed.full] == given
        assert [(edit.message, edit.part) for edit in routed.edits] == [(0, 0), (2, 0)]
    else:
        assert routed.full == routed.compressed
        assert routed.edits == ()
        assert routed.report.full_tokens < 200
    assert routed.report.num_images == 2


def test_an_attachment_is_no_words_of_the_user() -> None:
    """Not the task, and no newest user message where it is the image of an observation."""
    long_document = xlsx([[word, n] for n, word in enumerate(WORDS * 200)])
    observation = {"role": "user", "content": [{"type": "text", "text": "Observation:\n" + "fog. " * 900}]}
    given = [
        _ask(file_part(long_document)),
        {"role": "assistant", "content": "Let me look."},
        {"role": "user", "content": [image_part(image())]},
        observation,
    ]
    router = ContextRouter()
    read = router.attachments.read(tuple(map(Message.model_validate, given)), router.store)
    history = router._fitter.read(read.full, (), None, read.headers).history
    assert history.user_messages == (0,)
    assert [part.kind for part in history.parts] == ["user", "user", "assistant", "result", "result"]
    assert history.parts[-1].query.startswith("Who keeps the lighthouse?")
    assert "harbour" not in history.parts[-1].query
    router.attachments.close()


def test_views_are_the_same_in_another_process_and_begin_like_those_before() -> None:
    messages: list[dict[str, Any]] = [_ask(file_part(_report(seed=1), "a.txt"), image_part(image()))]
    for number in range(6):
        messages += _turn(number, [file_part(_report(80, seed=number), f"{number}.txt")])
    router = ContextRouter()
    views = [router.route(messages[:end]).compressed for end in range(1, len(messages) + 1, 2)]
    again = ContextRouter().route(messages).compressed
    assert again == views[-1]
    for before, after in itertools.pairwise(views):
        kept = len(before) - 4  # turns that had left the verbatim window already
        assert after[: max(kept, 1)] == before[: max(kept, 1)]


def test_what_is_not_read_is_counted_and_nothing_else_changes() -> None:
    given = [
        {"role": "system", "content": "Be brief."},
        _ask(file_part(pdf(["x"])[:90]), {"type": "file", "file": {"file_id": "f-1"}}),
    ]
    routed = ContextRouter().route(given)
    assert routed.report.num_degraded_attachments == 2
    assert routed.full[0].wire() == given[0]
    assert routed.full[1].texts()[2] == "Who keeps the lighthouse?"
    assert all(part.type == "text" for part in routed.full[1].content or () if not isinstance(part, str))
