"""What must be true with a drafter of another family, on whichever of vLLM's runners.

A test file takes these tests over and brings the fixtures `engines`, which makes an engine, and `sizes`, rows
of logits of both models.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.decoding.spelling import Vocabulary
from asymspec_agents.decoding.vocab import MAPPED_DELTAS, VocabMap
from asymspec_agents.decoding.vocab_file import save_map
from tests.engine.tiny_folder import byte_tokenizer

from .engines import BLOCK_BYTES, Answer, Ask, K, TinyEngine, views
from .exactness import GATES, ROOMY, Engines, count_preemptions
from .family_models import Pair
from .family_oracle import FamilyOracle
from .models import save_pair
from .oracle import Seen

__all__ = ["FamilyExactness", "Own", "Sizes", "family_engine"]

Sizes = dict[tuple[str, str], tuple[int, int]]
KINDS = [("words", "digits", False), ("digits", "words", True), ("words", "pieces", True)]


def family_engine(engines: Engines, pair: Pair, asymspec: dict[str, Any], **arguments: Any) -> TinyEngine:
    """An engine for a pair of two families."""
    sizes = (pair.verifier.config.vocab_size, pair.drafter.config.vocab_size)
    speculative = dict(arguments.pop("speculative_config", {}))
    if sizes[0] != sizes[1]:
        speculative["use_heterogeneous_vocab"] = True
    return engines(
        pair.folders, {"vocab_map": pair.choice, **asymspec}, speculative_config=speculative, **arguments
    )


class Own:
    """A pair's engine and oracle."""

    def __init__(self, pair: Pair, engine: TinyEngine) -> None:
        self.pair = pair
        self.engine = engine
        self.oracle = FamilyOracle(pair)

    def ask(self, rng: random.Random, num_full: int, num_base: int, *options: Any, **fields: Any) -> Ask:
        """A request with random views of these lengths, in the drafter's tokens."""
        full, base = (self.ids(rng, num) for num in (num_full, num_base))
        end = full[-min(3, num_full, num_base) :]
        compressed = [rng.randrange(self.pair.family.num_ids) for _ in range(rng.randint(1, 60))]
        return Ask(compressed, full, *options, base=[*base[: num_base - len(end)], *end], **fields)

    def ids(self, rng: random.Random, num: int) -> list[int]:
        return [rng.randrange(self.pair.family.vocab_size) for _ in range(num)]

    def check(self, asks: list[Ask], answers: list[Answer]) -> Seen:
        """Asserts that the answers are the naive rule's, whole and counted."""
        seen = Seen()
        for ask, answer in zip(asks, answers, strict=True):
            self.oracle.check_answer(ask, answer, seen)
            assert answer.finish_reason == "length"
            assert len(answer.tokens) == ask.max_tokens
            report = answer.report
            assert report is not None
            assert ask.max_tokens <= report["accepted"] + report["fused"] + report["bonus"]
            assert report["drafter_prompt_tokens"] == len(ask.full or ())
            assert report["cross_family"]["mapped_tokens"] == len(self.pair.family.vocab_map)
            written = self.pair.family.begin()
            written.push(answer.tokens)
            assert report["cross_family"]["respelled"] >= written.num_respelled
        seen.check_excuses()
        return seen


class FamilyExactness:
    """The tests."""

    @pytest.fixture(scope="class", params=KINDS, ids=lambda kind: "-".join(map(str, kind)))
    def own(
        self,
        request: pytest.FixtureRequest,
        engines: Engines,
        sizes: Sizes,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[Own]:
        verifier, drafter, is_thin = request.param
        families = verifier, drafter
        pair = Pair(tmp_path_factory.mktemp("families"), families, sizes[families], is_thin=is_thin)
        engine = family_engine(engines, pair, ROOMY)
        yield Own(pair, engine)
        engine.close()

    def test_all_rules_at_once(self, own: Own) -> None:
        rng = random.Random(2)
        asks = [
            own.ask(
                rng,
                rng.randint(20, 150),
                rng.randint(3, 80),
                {
                    "gate": gate,
                    "delta": delta,
                    "num_draft_tokens": num_drafts,
                    "bonus": rng.choice(("rule", "rule", "none", "verifier")),
                    "beta": rng.choice((0.0, 0.5, 1.0)),
                    "gamma": rng.choice((0.3, 0.5, 1.0)),
                    "slack": 0.4,
                },
            )
            for gate, delta, num_drafts in itertools.product(GATES, MAPPED_DELTAS, range(1, K + 1))
        ]
        seen = own.check(asks, own.engine.answer(asks))
        assert 0.1 < seen.num_accepted / seen.num_tokens < 0.9
        assert len(set(seen.texts)) == len(asks)

    def test_odd_views(self, own: Own) -> None:
        rng = random.Random(4)
        asks = [
            own.ask(rng, num_full, num_base)
            for num_full, num_base in itertools.product((1, 2, 3, 31, 32, 33, 35), (1, 2, 34))
        ]
        same = own.ids(rng, 40)
        asks += [
            Ask([1, 2], same, options, base=same)
            for options in ({}, {"identical_views": "gate"}, {"mode": "strict"})
        ]
        asks.append(Ask([5], same[:1], base=same[:1]))
        answers = own.engine.answer(asks)
        own.check(asks, answers)
        modes = [answer.report["mode"] for answer in answers[-4:] if answer.report]
        assert modes == ["strict", "asymspec", "strict", "strict"]

    def test_long_answers_alone_and_among_others(self, own: Own) -> None:
        rng = random.Random(3)
        asks = [
            own.ask(rng, 200, 40, {"num_draft_tokens": num_drafts, "beta": 0.3}, max_tokens=150)
            for num_drafts in range(1, K + 1)
        ]
        together = own.engine.answer(asks)
        own.check(asks, together)
        assert sum(answer.report["cross_family"]["reread"] for answer in together if answer.report)
        assert own.engine.answer(asks[:1])[0].tokens == together[0].tokens

    def test_the_text_does_not_depend_on_the_number_of_drafts(self, own: Own) -> None:
        rng = random.Random(5)
        ask = own.ask(rng, 100, 30)
        assert ask.full is not None
        asks = [
            Ask(ask.compressed, ask.full, {"num_draft_tokens": n, "bonus": bonus}, 60, base=ask.base)
            for n, bonus in itertools.product(range(1, K + 1), ("rule", "none"))
        ]
        texts = {tuple(answer.tokens) for answer in own.engine.answer(asks)}
        assert len(texts) == 1

    def test_a_conversation_finds_its_prefixes_and_never_a_stale_one(self, own: Own) -> None:
        rng = random.Random(6)
        ask = own.ask(rng, 200, 100, max_tokens=30)
        for turn in range(4):
            (answer,) = own.engine.answer([ask])
            own.check([ask], [answer])
            assert answer.report is not None
            cached = answer.report["cached_tokens"]
            if turn == 0:
                assert cached["drafter"] == cached["base"] == 0
            else:
                assert cached["drafter"] >= 192
                assert cached["base"] >= 64
            written = own.pair.family.begin()
            written.push(answer.tokens)
            further = [*written.tokens, *own.ids(rng, 20)]
            assert ask.full is not None
            ask = Ask(
                [*ask.compressed, *answer.tokens],
                [*ask.full, *further],
                max_tokens=30,
                base=[*ask.base, *further],
            )
        assert ask.full is not None
        salted = Ask(ask.compressed, ask.full, max_tokens=30, base=ask.base, salt="somebody else")
        (answer,) = own.engine.answer([salted])
        own.check([salted], [answer])
        assert answer.report is not None
        assert answer.report["cached_tokens"]["drafter"] == 0

    def test_joins_and_aborts_leave_nothing_behind(self, own: Own) -> None:
        rng = random.Random(1)
        asked: dict[str, Ask] = {}
        for step in range(100):
            name = f"n{rng.randrange(12)}"
            if step < 80 and name not in asked and rng.random() < 0.4:
                asked[name] = own.ask(rng, rng.randint(1, 200), rng.randint(1, 60), max_tokens=20)
                own.engine.add(asked[name], name)
            if asked and rng.random() < 0.08:
                name = rng.choice(sorted(asked))
                del asked[name]
                own.engine.abort(name)
            for name, answer in own.engine.step().items():
                own.check([asked.pop(name)], [answer])
        for name, answer in own.engine.finish().items():
            own.check([asked.pop(name)], [answer])
        assert not asked
        own.engine.answer([Ask([1, 2, 3], max_tokens=1)])  # a step that brings the worker the last news
        assert own.engine.is_clean()
        assert not own.engine.runner._drafting.rounds._texts

    def test_plain_requests_get_what_they_get_alone(self, own: Own) -> None:
        rng = random.Random(7)
        plain = Ask([5, 6, 7], max_tokens=30)
        (alone,) = own.engine.answer([plain])
        mixed = own.ask(rng, 100, 20)
        together = own.engine.answer([plain, mixed])
        assert together[0].tokens == alone.tokens
        assert together[0].report is None
        own.check([mixed], [together[1]])

    def test_the_end_of_either_familys_turn_ends_the_answer(self, own: Own) -> None:
        ask = own.ask(random.Random(8), 60, 20, max_tokens=40, sampling={"ignore_eos": False})
        (answer,) = own.engine.answer([ask])
        token = answer.tokens[10]
        views, family = own.engine.scheduler, own.pair.family
        assert set(views._family.end_ids) == set(family.end_ids)
        assert family.end_ids
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(views._family), "end_ids", property(lambda self: {token}))
            (ended,) = own.engine.answer([ask])
        assert ended.tokens == answer.tokens[: answer.tokens.index(token) + 1]
        assert ended.finish_reason == "stop"

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"base": ()}, "base_ids is missing"),
            ({"options": {"mode": "raw_full"}}, "delta='full'"),
            ({"options": {"gate": "cda", "delta": "scd"}}, "delta='scd'"),
            ({"full": [10_000]}, "token id 10000 of the full view"),
            ({"base": [10_000]}, "token id 10000 of the compressed view"),
        ],
    )
    def test_what_can_not_be_served_is_refused(self, own: Own, fields: Any, told: str) -> None:
        ask = Ask(**{"compressed": [1], "full": [2, 3], "base": [4], **fields})
        (answer,) = own.engine.answer([ask])
        assert answer.finish_reason == "error"
        assert answer.report is not None
        assert told in answer.report["error"]

    def test_an_answer_ends_where_the_drafters_view_is_full(
        self, engines: Engines, sizes: Sizes, tmp_path: Path
    ) -> None:
        """It takes more tokens of the drafter's than was admitted, wherever blocks fall."""
        families = "words", "digits"
        pair = Pair(tmp_path, families, sizes[families], is_thin=True)
        room, num_full = 60, 100
        engine = family_engine(engines, pair, {"pool_bytes": 16 << 20, "max_full_len": num_full + room})
        own = Own(pair, engine)
        try:
            ask = own.ask(random.Random(2), num_full, 30, {"mode": "cda_only"}, max_tokens=room)
            assert ask.full is not None
            asks = [
                Ask(ask.compressed, ask.full, {**ask.options, "num_draft_tokens": n}, room, base=ask.base)
                for n in range(1, K + 1)
            ]
            answers = engine.answer(asks)
        finally:
            engine.close()
        texts = {tuple(answer.tokens) for answer in answers}
        assert len(texts) == 1
        seen = Seen()
        own.oracle.check_answer(ask, answers[0], seen)
        seen.check_excuses()
        assert answers[0].finish_reason == "length"
        lengths = []
        for tokens in (answers[0].tokens[:-1], answers[0].tokens):
            written = pair.family.begin()
            written.push(tokens)
            lengths.append(len(written.tokens))
        assert len(answers[0].tokens) < room
        assert lengths[0] <= room < lengths[1]

    def test_an_identity_map_changes_nothing(self, engines: Engines, tmp_path: Path) -> None:
        """Last draft position included: the same tokens, and the same counts of what stood where."""
        verifier, drafter = save_pair(tmp_path, "llama")
        vocabulary = Vocabulary.of(byte_tokenizer())
        path = tmp_path / "map.json"
        save_map(VocabMap.build(vocabulary, vocabulary), path)
        rng = random.Random(12)
        asks = []
        for index in range(12):
            full, compressed = views(rng, rng.randint(1, 150), rng.randint(1, 60))
            options = {"num_draft_tokens": 1 + index % K, "bonus": rng.choice(("rule", "none", "verifier"))}
            asks.append(Ask(compressed, full, options, max_tokens=50))
        answers = []
        for choice in (None, str(path)):
            engine = engines((verifier, drafter), {"pool_bytes": 16 << 20, "vocab_map": choice})
            own = [replace(ask, base=ask.compressed if choice else ()) for ask in asks]
            try:
                answers.append(engine.answer(own))
            finally:
                engine.close()
        counted = ("drafted", "accepted", "fused", "bonus", "accepted_per_position", "blocks")
        for plain, mapped in zip(*answers, strict=True):
            assert mapped.tokens == plain.tokens
            assert plain.report is not None
            assert mapped.report is not None
            assert mapped.report["cross_family"]["respelled"] == 0
            assert [mapped.report[name] for name in counted] == [plain.report[name] for name in counted]
        assert any(answer.report["accepted_per_position"][-1] for answer in answers[1] if answer.report)

    @pytest.mark.parametrize("short_of", ["verifier", "pool"])
    def test_preempted_requests_go_on_as_if_nothing_had_been(
        self, engines: Engines, sizes: Sizes, tmp_path: Path, short_of: str
    ) -> None:
        rng = random.Random(8)
        families = "words", "digits"
        pair = Pair(tmp_path, families, sizes[families], is_thin=True)
        engine = family_engine(
            engines,
            pair,
            {"pool_bytes": (60 if short_of == "pool" else 400) * BLOCK_BYTES, "prefill_tokens": 48},
            num_gpu_blocks_override=12 if short_of == "verifier" else None,
            max_model_len=256,
        )
        own = Own(pair, engine)
        try:
            asks = [own.ask(rng, rng.randint(60, 200), rng.randint(10, 60), max_tokens=150) for _ in range(8)]
            preempted = count_preemptions(engine)
            own.check(asks, engine.answer(asks))
            assert len(preempted) >= 3
            engine.answer([Ask([1, 2, 3], max_tokens=1)])
            assert engine.is_clean()
        finally:
            engine.close()
