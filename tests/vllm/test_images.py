"""Images in the books of a full view: names of blocks, what the worker is told, what is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecOptions
from vllm_asymspec.images import Span, check_places, end_of, spans_of
from vllm_asymspec.pool import block_hashes
from vllm_asymspec.reading import reading_of
from vllm_asymspec.views import Views
from vllm_asymspec.wire_args import AsymSpecArgs, pack_ids

from .test_views import BLOCK, limits

IDS = pack_ids([9] * 40)


@dataclass(frozen=True)
class Place:
    offset: int
    length: int


@dataclass(frozen=True)
class Image:
    """As vLLM's features have it."""

    identifier: str
    mm_position: Place


def names(*spans: Span, salt: str | None = None) -> list[bytes]:
    return list(block_hashes(IDS, BLOCK, salt, spans))


def test_blocks_are_named_by_the_images_in_them() -> None:
    plain, one = names(), names(Span("one", 9, 14))
    assert plain[:2] == one[:2]  # what stands before an image is the same with every image
    assert not set(plain[2:]) & set(one[2:])
    assert one == names(Span("one", 9, 14))
    assert not set(one[2:]) & set(names(Span("two", 9, 14))[2:])
    assert not set(one[2:]) & set(names(Span("one", 9, 14), salt="s"))
    later = names(Span("one", 10, 15))
    assert not set(one[2:]) & set(later[2:])
    both = names(Span("one", 9, 14), Span("two", 30, 33))
    assert both[:7] == one[:7]
    assert both[7:] != one[7:]


def test_different_images_never_share_a_block() -> None:
    rng = random.Random(1)
    known: dict[bytes, tuple[Any, ...]] = {}
    for _ in range(300):
        start = rng.randrange(30)
        spans = [Span(rng.choice("ab"), start, start + rng.randint(1, 8))]
        for index, name in enumerate(block_hashes(IDS, BLOCK, None, spans)):
            stop = (index + 1) * BLOCK
            behind = tuple((s.name, s.start, min(s.stop, stop)) for s in spans if s.start < stop)
            read = known.setdefault(name, (stop, behind))
            assert read[0] == stop
            assert [part[:2] for part in read[1]] == [part[:2] for part in behind]


def views_of(images: Sequence[Any], full: int = 20) -> tuple[Views, list[tuple[int, int]]]:
    asked = []

    def unread(given: Sequence[Any], num_tokens: int) -> Sequence[Any]:
        asked.append((len(given), num_tokens))
        return [image for image in given if end_of(image) > num_tokens]

    views = Views(limits(100), 4, unread)
    args = AsymSpecArgs(pack_ids([9] * full), AsymSpecOptions(), num_images=len(images))
    for name in ("first", "second"):
        views.add(name, args, pack_ids([9] * full), None, images)
    return views, asked


def test_the_worker_gets_images_with_the_request_less_those_it_need_not_see() -> None:
    images = (Image("one", Place(1, 5)), Image("two", Place(15, 2)))
    views, asked = views_of(images)
    assert views.begin("first", ())
    views.read("first", 1000)
    (new,) = views.take_plan().new
    assert (new.images, new.full_ids) == (images, pack_ids([9] * 20))
    assert views.begin("second", ())
    (new,) = views.take_plan().new
    assert new.images == images[1:]
    assert asked == [(2, 0), (2, 16)]
    assert views.tally("first").report()["images"] == 2


def test_without_images_nothing_of_the_full_view_is_sent() -> None:
    views, _ = views_of(())
    assert views.begin("first", ())
    (new,) = views.take_plan().new
    assert (new.images, new.full_ids) == ((), b"")


def test_the_same_ids_are_not_identical_views_where_some_stand_for_images() -> None:
    args = AsymSpecArgs(IDS, AsymSpecOptions())
    assert reading_of(args, IDS).strict
    shown = reading_of(AsymSpecArgs(IDS, AsymSpecOptions(), num_images=1), IDS)
    assert (shown.strict, shown.has_base, shown.fallback) == (False, True, None)


def test_text_must_follow_the_last_image() -> None:
    check_places((), 0)
    (span,) = spans_of([Image("one", Place(3, 4))])
    assert span == Span("one", 3, 7)
    check_places([span], 9)
    with pytest.raises(UnsupportedRequestError, match=r"tokens 3 to 7 of 8.*at least 2 tokens of text"):
        check_places([span], 8)
