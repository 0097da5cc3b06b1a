"""What must be true of a drafter that sees, of whichever kind and on whichever of vLLM's runners.

A test file takes these tests over and brings the fixtures `kind`, `engines` (makes an engine) and `roomy`
(one with room for all; its drafter reads 48 tokens a step while others decode, so images come in pieces).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vllm_asymspec.wire_args import EXTRA_ARG, AsymSpecArgs

from .engines import BLOCK_BYTES, BLOCK_SIZE, Answer, Ask, K, TinyEngine, check
from .exactness import ROOMY, Engines, count_preemptions
from .oracle import Seen
from .vision_engines import Eyes
from .vision_models import Kind, save_vision_pair
from .vision_oracle import Scene, picture, scene, vision_oracle

__all__ = ["SEEING", "VisionExactness"]

SEEING = {**ROOMY, "max_image_pixels": 64 * 64}
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"num_draft_tokens": 1},
    {"num_draft_tokens": K, "beta": 2.0, "gamma": 0.3},
    {"num_draft_tokens": 3, "bonus": "none"},
    {"num_draft_tokens": K, "bonus": "verifier"},
    {"mode": "scd_delta"},
    {"mode": "product"},
    {"mode": "strict"},
)


def ids(rng: random.Random, num: int) -> list[int]:
    return [rng.randrange(256) for _ in range(num)]


def random_scene(kind: Kind, rng: random.Random, num_images: int) -> Scene:
    """Images of any shape, with texts of any length around them, none among them."""
    parts: list[Any] = [ids(rng, rng.randint(0, 40))]
    for _ in range(num_images):
        size = (rng.choice((16, 24, 40, 64)), rng.choice((16, 24, 40, 64)))
        parts += [picture(rng.randrange(6), *size), ids(rng, rng.choice((0, 1, 7, 40)))]
    return scene(kind, [*parts, ids(rng, rng.randint(3, 20))])


def judge(kind: Kind, pairs: Sequence[tuple[Scene, Ask, Answer]]) -> Seen:
    """Checks answers against the oracle."""
    oracle, seen = vision_oracle(kind), Seen()
    for shown, ask, answer in pairs:
        oracle.look(shown)
        check(ask, answer, oracle, seen)
        assert answer.report is not None
        assert answer.report["images"] == len(shown.images)
    seen.check_excuses()
    return seen


class VisionExactness:
    """The tests."""

    @pytest.fixture(scope="class")
    def eyes(self, roomy: TinyEngine, kind: Kind) -> Eyes:
        return Eyes(roomy, kind)

    def test_with_and_without_images_in_one_batch(self, roomy: TinyEngine, eyes: Eyes, kind: Kind) -> None:
        rng = random.Random(1)
        scenes = [random_scene(kind, rng, index % 4) for index in range(len(RULES) * 3)]
        asks = [
            eyes.ask(
                shown,
                ids(rng, rng.randint(3, 60)),
                RULES[index % len(RULES)],
                base=ids(rng, rng.choice((0, 0, 1, 2, 30, 80))),  # where its template is another
            )
            for index, shown in enumerate(scenes)
        ]
        answers = roomy.answer(asks)
        seen = judge(kind, list(zip(scenes, asks, answers, strict=True)))
        assert 0.2 < seen.num_accepted / seen.num_tokens < 0.95
        for index in (1, 2, 3):
            assert roomy.answer([asks[index]])[0].tokens == answers[index].tokens

    def test_an_image_changes_what_the_drafter_proposes_and_nothing_else(
        self, roomy: TinyEngine, eyes: Eyes, kind: Kind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = random.Random(2)
        before, behind, compressed = ids(rng, 30), ids(rng, 30), ids(rng, 20)
        rounds = roomy.runner._drafting.rounds
        verify, seen = rounds.verify, []

        def noted(names: Any, verifier: Any, num_scheduled: Any) -> Any:
            rows = rounds.slots.rows(names)
            if len(seen) < 1:
                first = [rounds.slots.full_logits[rows, 0], rounds.slots.base_logits[rows, 0], verifier[:, 0]]
                seen.append([logits.clone() for logits in first])
            return verify(names, verifier, num_scheduled)

        monkeypatch.setattr(rounds, "verify", noted)
        of = []
        for seed in (1, 2):
            seen.clear()
            shown = scene(kind, [before, picture(seed, 40, 24), behind])
            roomy.answer([eyes.ask(shown, compressed, salt=f"nothing is shared {seed}")])
            of.append(seen[0])
        (a, b, t), (other_a, other_b, other_t) = of
        assert (a - other_a).abs().max() > 0.1
        assert (b == other_b).all()
        assert (t == other_t).all()

    def test_views_of_any_length_beside_each_other(self, roomy: TinyEngine, eyes: Eyes, kind: Kind) -> None:
        """An image at the very start, right before the last two tokens, across blocks; a longer caption."""
        rng = random.Random(3)
        big = picture(1, 64, 64)
        scenes = [
            scene(kind, [big, ids(rng, 3)]),
            scene(kind, [ids(rng, 200), big, ids(rng, 2)]),
            scene(kind, [ids(rng, BLOCK_SIZE - 2), big, big, ids(rng, 2)]),
            scene(kind, [ids(rng, 5), picture(2, 16, 16), ids(rng, 5)]),
            scene(
                kind, [ids(rng, 300), picture(2, 16, 64), ids(rng, 600), picture(3, 64, 16), ids(rng, 400)]
            ),
        ]
        asks = [
            eyes.ask(shown, ids(rng, num)) for shown, num in zip(scenes, (10, 2, 1, 300, 50), strict=True)
        ]
        judge(kind, list(zip(scenes, asks, roomy.answer(asks), strict=True)))

    def test_a_conversation_sees_each_image_once_and_never_another_in_its_place(
        self, roomy: TinyEngine, eyes: Eyes, kind: Kind
    ) -> None:
        rng = random.Random(4)
        sight = roomy.runner._drafting.drafter.sight
        parts: list[Any] = [ids(rng, 70), picture(11, 64, 64), ids(rng, 70)]
        compressed = ids(rng, 60)
        pairs = []
        for turn in range(4):
            shown = scene(kind, parts)
            ask = eyes.ask(shown, compressed, max_tokens=20)
            before = sight.num_runs
            (answer,) = roomy.answer([ask])
            pairs.append((shown, ask, answer))
            assert answer.report is not None
            cached = answer.report["cached_tokens"]["drafter"]
            if turn in (0, 2):  # a new image, and in turn 2 another one where the first stood
                assert sight.num_runs == before + 1
                assert cached == (0 if turn == 0 else 64)
            else:
                assert sight.num_runs == before + (turn == 3)
                assert cached >= len(pairs[turn - 1][0].ids) - 2 - BLOCK_SIZE
            further = [*answer.tokens, *ids(rng, 20)]
            compressed = [*compressed, *further]
            parts = [*parts, further]
            if turn == 1:
                parts[1] = picture(12, 64, 64)
            if turn == 2:
                parts += [picture(13, 40, 40), ids(rng, 10)]
        judge(kind, pairs)

    def test_what_the_tower_made_is_kept_by_content_within_bounds(
        self, roomy: TinyEngine, eyes: Eyes, kind: Kind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = random.Random(5)
        sight = roomy.runner._drafting.drafter.sight
        image = picture(21, 40, 40)
        before = sight.num_runs
        pairs = []
        for _ in range(3):  # no prefix is shared, the image is
            shown = scene(kind, [ids(rng, 40), image, ids(rng, 10), image, ids(rng, 10)])
            ask = eyes.ask(shown, ids(rng, 10))
            pairs.append((shown, ask, roomy.answer([ask])[0]))
        assert sight.num_runs == before + 1
        monkeypatch.setattr(sight, "_max_bytes", 1)
        scenes = [random_scene(kind, rng, 3) for _ in range(4)]
        asks = [eyes.ask(shown, ids(rng, 20)) for shown in scenes]
        pairs += list(zip(scenes, asks, roomy.answer(asks), strict=True))
        assert len(sight._outputs) == 1
        assert sight._num_bytes == sum(output.nbytes for output in sight._outputs.values())
        judge(kind, pairs)

    def test_joins_and_aborts_leave_nothing_behind(self, roomy: TinyEngine, eyes: Eyes, kind: Kind) -> None:
        rng = random.Random(6)
        asked: dict[str, tuple[Scene, Ask]] = {}
        pairs = []
        for step in range(90):
            name = f"n{rng.randrange(8)}"
            if step < 60 and name not in asked and rng.random() < 0.4:
                shown = random_scene(kind, rng, rng.randint(0, 3))
                ask = eyes.ask(shown, ids(rng, rng.randint(1, 60)), max_tokens=rng.randint(1, 20))
                asked[name] = shown, ask
                roomy.add(ask, name)
            if asked and rng.random() < 0.1:
                name = rng.choice(sorted(asked))
                del asked[name]
                roomy.abort(name)
            pairs += [(*asked.pop(name), answer) for name, answer in roomy.step().items()]
        pairs += [(*asked.pop(name), answer) for name, answer in roomy.finish().items()]
        assert not asked
        roomy.answer([Ask([1, 2, 3], max_tokens=1)])  # a step that brings the worker the last news
        assert roomy.is_clean()
        assert not roomy.runner._drafting.rounds.slots._seen
        judge(kind, pairs)

    def test_what_the_engine_refuses(self, roomy: TinyEngine, eyes: Eyes, kind: Kind) -> None:
        rng = random.Random(7)
        compressed = ids(rng, 20)
        at_end = eyes.ask(scene(kind, [ids(rng, 20), picture(1, 16, 16)]), compressed)
        shown = scene(kind, [ids(rng, 20), picture(1, 16, 16), ids(rng, 20)])
        whole = eyes.ask(shown, compressed)
        two = AsymSpecArgs(whole.argument().full_ids, whole.parsed, num_images=2).pack()
        short = replace(whole, sampling={"extra_args": {EXTRA_ARG: two}})
        none = replace(short, sampling={"extra_args": {EXTRA_ARG: {**two, "num_images": 0}}})
        for ask, says in (
            (at_end, "at its very end"),
            (short, "num_images=2, but 1 came"),
            (none, "images or audio in the compressed view"),
        ):
            name = roomy.add(ask)
            answer = roomy.finish()[name]
            assert answer.finish_reason == "error"
            assert answer.report is not None
            assert says in answer.report["error"]

    def test_preempted_requests_look_again(self, engines: Engines, kind: Kind, tmp_path: Path) -> None:
        rng = random.Random(8)
        scenes = [scene(kind, [ids(rng, 40), picture(i, 40, 40), ids(rng, 60 + 4 * i)]) for i in range(8)]
        texts = [ids(rng, rng.randint(10, 60)) for _ in scenes]
        begun = [
            len(view) + 2 * BLOCK_SIZE
            for pair in zip(scenes[:3], texts, strict=False)
            for view in (pair[0].ids, pair[1])
        ]
        num_blocks = 1 + sum(num_tokens // BLOCK_SIZE for num_tokens in begun)  # no room for three answers
        engine = engines(
            save_vision_pair(tmp_path, kind),
            {**SEEING, "pool_bytes": num_blocks * BLOCK_BYTES},
            max_model_len=256,
        )
        try:
            eyes = Eyes(engine, kind)
            preempted = count_preemptions(engine)
            asks = [eyes.ask(shown, text, max_tokens=70) for shown, text in zip(scenes, texts, strict=True)]
            judge(kind, list(zip(scenes, asks, engine.answer(asks), strict=True)))
            assert len(preempted) >= 2
            engine.answer([Ask([1, 2, 3], max_tokens=1)])
            assert engine.is_clean()
        finally:
            engine.close()
