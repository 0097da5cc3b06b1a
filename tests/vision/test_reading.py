"""A drafter that sees reads a prompt in pieces as transformers' own model reads it whole."""

from __future__ import annotations

import pytest
import torch

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.view import View
from asymspec_agents.engine.vision.picture import Picture
from asymspec_agents.engine.vision.prompt import Place, SeenPrompt
from asymspec_agents.messages import parse_messages
from tests.engine.fresh import LOGIT_TOLERANCE

from .families import FAMILIES
from .images import encoded, noise
from .pairs import CHAT, SeeingPair, seeing_pair

IMAGES = (noise(1), noise(2, 16, 32), noise(3))
PLACES: tuple[Place, ...] = ((1, 1), (3, 0), (3, 1))
by_family = pytest.mark.parametrize("family", FAMILIES)


def prompt_of(pair: SeeingPair) -> SeenPrompt:
    pictures = dict(zip(PLACES, (Picture.of(encoded(image)) for image in IMAGES), strict=True))
    return pair.prompts.prompt(parse_messages(CHAT), pictures=pictures)


@by_family
@pytest.mark.parametrize("chunk", [1, 3, 7, 10_000])
def test_any_pieces_give_the_logits_of_the_whole(family: str, chunk: int) -> None:
    pair = seeing_pair(family)
    prompt = prompt_of(pair)
    ids = [*prompt.ids, 5, 9, 200]  # committed tokens go on behind it
    cache = KVCache()
    rows = []
    for start in range(0, len(ids), chunk):
        piece = torch.tensor([ids[start : start + chunk]])
        rows.append(pair.drafter.forward(piece, cache, piece.shape[1], prompt.sight)[0])
    wanted = pair.oracle.logits(pair.oracle.real(ids), IMAGES)
    torch.testing.assert_close(torch.cat(rows), wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)
    assert wanted.std() > 0.5  # the model has opinions


@by_family
def test_every_image_matters_and_only_behind_it(family: str) -> None:
    pair = seeing_pair(family)
    prompt = prompt_of(pair)
    assert prompt.sight is not None
    logits = pair.drafter.forward(torch.tensor([prompt.ids]), KVCache(), len(prompt.ids), prompt.sight)[0]
    for number, place in enumerate(PLACES):
        others = {
            place: Picture.of(encoded(image if at != number else noise(77, *image.size)))
            for at, (place, image) in enumerate(zip(PLACES, IMAGES, strict=True))
        }
        other = pair.prompts.prompt(parse_messages(CHAT), pictures=others)
        changed = pair.drafter.forward(torch.tensor([other.ids]), KVCache(), len(other.ids), other.sight)[0]
        first = next(i for i, (a, b) in enumerate(zip(prompt.ids, other.ids, strict=True)) if a != b)
        assert torch.equal(logits[:first], changed[:first]), place
        assert (logits[-1] - changed[-1]).abs().max() > 1e-2, place


@by_family
def test_a_text_alone_is_read_as_by_the_text_model(family: str) -> None:
    pair = seeing_pair(family)
    pair.drafter.forward(torch.tensor([prompt_of(pair).ids]), KVCache(), 1, prompt_of(pair).sight)
    ids = pair.prompts.prompt(parse_messages([{"role": "user", "content": "Hello"}])).ids
    got = pair.drafter.forward(torch.tensor([ids]), KVCache(), len(ids))[0]
    wanted = pair.oracle.logits(ids, ())
    torch.testing.assert_close(got, wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)


@by_family
def test_views_with_and_without_images_pack(family: str) -> None:
    pair = seeing_pair(family)
    assert pair.drafter.can_pack
    prompt = prompt_of(pair)
    short = pair.prompts.prompt(parse_messages([{"role": "user", "content": "Hello"}])).ids
    views = [View(pair.drafter, prompt.ids, sight=prompt.sight), View(pair.drafter, short)]
    for view in views:
        view.prefill(lambda: None)
    rows = View.read_each(views, [view.unread([7, 8]) for view in views])
    for row, ids, images in zip(rows, (prompt.ids, short), (IMAGES, ()), strict=True):
        wanted = pair.oracle.logits([*pair.oracle.real(ids), 7, 8], images)[-1]
        torch.testing.assert_close(row[0, 0], wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)


@by_family
def test_packed_pieces_may_hold_rows_of_images(family: str) -> None:
    pair = seeing_pair(family)
    prompt = prompt_of(pair)
    short = pair.prompts.prompt(parse_messages([{"role": "user", "content": "Hello"}])).ids
    ids = [torch.tensor([prompt.ids]), torch.tensor([short])]
    rows = pair.drafter.forward_packed(ids, [KVCache(), KVCache()], [prompt.sight, None])
    for row, wanted_ids, images in zip(rows, (prompt.ids, short), (IMAGES, ()), strict=True):
        wanted = pair.oracle.logits(pair.oracle.real(wanted_ids), images)[-1]
        torch.testing.assert_close(row[0, 0], wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)


def test_an_interrupted_forward_leaves_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = seeing_pair("qwen3_vl")
    prompt = prompt_of(pair)
    cache = KVCache()
    pair.drafter.forward(torch.tensor([prompt.ids[:40]]), cache, 1, prompt.sight)

    def fail(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pair.drafter.decoder.layers[1], "forward", fail)
    with pytest.raises(KeyboardInterrupt):
        pair.drafter.forward(torch.tensor([prompt.ids[40:60]]), cache, 1, prompt.sight)
    monkeypatch.undo()
    assert cache.length == 40
    logits = pair.drafter.forward(torch.tensor([prompt.ids[40:]]), cache, 1, prompt.sight)[0, 0]
    wanted = pair.oracle.logits(pair.oracle.real(prompt.ids), IMAGES)[-1]
    torch.testing.assert_close(logits, wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)
