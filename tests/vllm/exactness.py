"""What must be true of the plugin on whichever of vLLM's runners: every token is the naive rule's.

A test file takes these tests over and brings two fixtures: `engines` makes an engine, `roomy` is one with
room for all, whose prompts are read in pieces by the verifier (64 tokens) and by the drafter (48).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.decoding.modes import MODES
from asymspec_agents.engine.engine import Engine
from tests.engine.runs import run
from tests.engine.tiny_folder import byte_tokenizer
from vllm_asymspec.warm_up import warm_up

from .engines import BLOCK_BYTES, MAX_MODEL_LEN, Ask, K, TinyEngine, check, views
from .models import NUM_IDS, VOCAB, causal_pair, save_pair
from .oracle import Oracle, Seen, tiny_oracle

__all__ = ["ROOMY", "Engines", "Exactness"]

Engines = Callable[..., TinyEngine]

ROOMY = {"pool_bytes": 16 << 20, "prefill_tokens": 48, "max_requests": 8}
GATES = ("cda", "fixed", "position", "fused_greedy", "slack", "strict")
DELTAS = ("context", "full", "scd", "none")


def every_rule() -> list[dict[str, Any]]:
    """All gates and deltas at every K and bonus, the named modes, and the parameters nothing else sets."""
    rng = random.Random(1)
    rules: list[dict[str, Any]] = [
        {
            "gate": gate,
            "delta": delta,
            "num_draft_tokens": num_drafts,
            "bonus": rng.choice(("rule", "rule", "none", "verifier")),
            "beta": rng.choice((0.5, 1.0, 2.0)),
            "gamma": rng.choice((0.3, 0.5, 1.0)),
            "slack": 0.4,
        }
        for gate, delta, num_drafts in itertools.product(GATES, DELTAS, range(1, K + 1))
    ]
    rules += [{"mode": mode, "bonus": bonus} for mode in MODES for bonus in ("rule", "none", "verifier")]
    rules += [{"plausibility": 0.2}, {"agreement": True, "beta": 2.0}, {"gamma": 0.0}, {"beta": 0.0}]
    return rules


def count_preemptions(engine: TinyEngine) -> list[str]:
    """The names of requests that get preempted from now on."""
    names: list[str] = []
    preempt = engine.scheduler._preempt_request

    def counted(request: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(request.request_id)
        return preempt(request, *args, **kwargs)

    engine.scheduler._preempt_request = counted
    return names


class Exactness:
    """The tests."""

    def test_all_rules_at_once(self, roomy: TinyEngine, oracle: Oracle) -> None:
        rng = random.Random(2)
        asks = []
        for options in every_rule():
            full, compressed = views(rng, rng.randint(20, 150), rng.randint(3, 80))
            asks.append(Ask(compressed, full, options))
        seen = Seen()
        for ask, answer in zip(asks, roomy.answer(asks), strict=True):
            check(ask, answer, oracle, seen)
        seen.check_excuses()
        assert 0.2 < seen.num_accepted / seen.num_tokens < 0.9
        assert len(set(seen.texts)) == len(asks)

    def test_equals_the_reference_engine_alone_and_among_others(self, roomy: TinyEngine) -> None:
        rng = random.Random(3)
        reference = Engine(*causal_pair("qwen2"), byte_tokenizer(), NUM_IDS)
        asks = [
            Ask(
                *reversed(views(rng, 200, 40)),
                {"num_draft_tokens": num_drafts, "bonus": bonus},
                max_tokens=64,
            )
            for num_drafts, bonus in itertools.product(range(1, K + 1), ("rule", "none"))
        ]
        together = roomy.answer(asks)
        for ask, answer in zip(asks, together, strict=True):
            assert ask.full is not None
            wanted = run(reference, (list(ask.full), list(ask.compressed)), max_tokens=64, **ask.options)
            assert answer.tokens == wanted.tokens
        assert roomy.answer(asks[:1])[0].tokens == together[0].tokens

    def test_odd_views(self, roomy: TinyEngine, oracle: Oracle) -> None:
        rng = random.Random(4)
        asks = []
        for num_full, num_compressed in itertools.product((1, 2, 3, 31, 32, 33, 34, 35), (1, 2, 3, 34, 60)):
            full = [rng.randrange(256) for _ in range(num_full)]
            asks.append(Ask([rng.randrange(256) for _ in range(num_compressed)], full))  # they end apart
        same = [rng.randrange(256) for _ in range(50)]
        special = [256, 257] * 20
        asks += [
            Ask(same, same),
            Ask(same[:1], same[:1]),
            Ask(same, same, {"identical_views": "gate"}),
            Ask(same, same, {"identical_views": "gate", "mode": "scd_delta"}),
            Ask(special, special[:-2]),
            Ask(views(rng, 3, 400)[1], same[:3]),
        ]
        seen = Seen()
        answers = roomy.answer(asks)
        for ask, answer in zip(asks, answers, strict=True):
            check(ask, answer, oracle, seen)
        seen.check_excuses()
        reports = [answer.report for answer in answers[-6:]]
        assert [report["mode"] for report in reports if report] == [
            "strict", "strict", "asymspec", "scd_delta", "asymspec", "asymspec"
        ]  # fmt: skip
        assert [report["fallback"] for report in reports if report] == ["identical_views"] * 2 + [None] * 4

    def test_full_views_far_beyond_the_verifiers_limit(self, roomy: TinyEngine, oracle: Oracle) -> None:
        rng = random.Random(5)
        asks = [Ask(*reversed(views(rng, 1900, 60)), max_tokens=64) for _ in range(2)]
        asks.append(Ask(*reversed(views(rng, 1000, MAX_MODEL_LEN - 16)), max_tokens=16))  # to the very end
        seen = Seen()
        for ask, answer in zip(asks, roomy.answer(asks), strict=True):
            check(ask, answer, oracle, seen)
        seen.check_excuses()

    def test_a_conversation_finds_its_prefixes_and_never_a_stale_one(
        self, roomy: TinyEngine, oracle: Oracle
    ) -> None:
        rng = random.Random(6)
        full, compressed = views(rng, 200, 100)
        seen = Seen()
        for turn in range(5):
            ask = Ask(compressed, full, max_tokens=30)
            (answer,) = roomy.answer([ask])
            check(ask, answer, oracle, seen)
            assert answer.report is not None
            cached = answer.report["cached_tokens"]
            if turn == 0:
                assert cached["drafter"] == cached["base"] == 0
            elif turn == 3:  # what was edited below is read again, what stands before it isn't
                assert 32 <= cached["drafter"] < 70
                assert 32 <= cached["base"] < 50
            else:
                assert cached["drafter"] >= 160
                assert cached["base"] >= 64
                assert cached["verifier"] >= 64
            further = [rng.randrange(256) for _ in range(20)]
            full = [*full, *answer.tokens, *further]
            compressed = [*compressed, *answer.tokens, *further]
            if turn == 2:
                full = [*full[:70], (full[70] + 1) % 256, *full[71:]]
                compressed = [*compressed[:50], (compressed[50] + 1) % 256, *compressed[51:]]
        salted = Ask(compressed, full, max_tokens=30, salt="somebody else")
        (answer,) = roomy.answer([salted])
        check(salted, answer, oracle, seen)
        assert answer.report is not None
        assert answer.report["cached_tokens"]["drafter"] == answer.report["cached_tokens"]["base"] == 0
        seen.check_excuses()

    def test_plain_requests_in_the_batch_get_what_they_get_alone(
        self, roomy: TinyEngine, oracle: Oracle
    ) -> None:
        from vllm.sampling_params import StructuredOutputsParams

        rng = random.Random(7)
        prompts = [[rng.randrange(256) for _ in range(30)] for _ in range(3)]
        regex = "[a-f]{10}[0-9]{10}"
        structured = {"structured_outputs": StructuredOutputsParams(regex=regex)}
        full, compressed = views(rng, 150, 40)
        plain = [
            Ask(prompts[0]),
            Ask(prompts[1], sampling={"temperature": 1.0, "seed": 5}),
            Ask(prompts[2], sampling=structured, max_tokens=20),
        ]
        mixed = [Ask(compressed, full), Ask(compressed, full, sampling=structured, max_tokens=20)]
        alone = [roomy.answer([ask])[0] for ask in plain]
        answers = roomy.answer([*plain, *mixed])
        assert [answer.tokens for answer in answers[:3]] == [answer.tokens for answer in alone]
        assert answers[0].tokens == oracle.greedy(prompts[0], answers[0].tokens, VOCAB)
        assert all(answer.report is None for answer in answers[:3])
        seen = Seen()
        check(mixed[0], answers[3], oracle, seen)
        letters, digits = (
            byte_tokenizer().convert_tokens_to_ids(list(ids)) for ids in ("abcdef", "0123456789")
        )
        check(mixed[1], answers[4], oracle, seen, allowed=[letters] * 10 + [digits] * 10)
        seen.check_excuses()

    def test_a_plain_request_of_one_token_joins_a_sampled_one(
        self, roomy: TinyEngine, oracle: Oracle
    ) -> None:
        """vLLM gives a request that comes with one token empty places for drafts, unless told not to."""
        rng = random.Random(3)
        full, compressed = views(rng, 60, 20)
        for token in (8, 100, 3):
            roomy.add(Ask(compressed, full, max_tokens=30))
            roomy.add(Ask(compressed, max_tokens=30, sampling={"temperature": 1.0}))
            for _ in range(3):
                roomy.step()
            name = roomy.add(Ask([token], max_tokens=6))
            answer = roomy.finish()[name]
            assert answer.tokens == oracle.greedy([token], answer.tokens, VOCAB)

    @pytest.mark.parametrize("seed", range(3))
    def test_joins_aborts_and_reused_names_leave_nothing_behind(
        self, roomy: TinyEngine, oracle: Oracle, seed: int
    ) -> None:
        rng = random.Random(seed)
        seen = Seen()
        asked: dict[str, Ask] = {}
        for step in range(120):
            name = f"n{rng.randrange(12)}"
            if step < 90 and name not in asked and rng.random() < 0.4:
                full, compressed = views(rng, rng.randint(1, 300), rng.randint(1, 100))
                asked[name] = Ask(
                    compressed, full, {"num_draft_tokens": rng.randint(1, K)}, rng.randint(1, 20)
                )
                roomy.add(asked[name], name)
            if asked and rng.random() < 0.08:
                name = rng.choice(sorted(asked))
                del asked[name]
                roomy.abort(name)
            for name, answer in roomy.step().items():
                check(asked.pop(name), answer, oracle, seen)
        for name, answer in roomy.finish().items():
            check(asked.pop(name), answer, oracle, seen)
        assert not asked
        roomy.answer([Ask([1, 2, 3], max_tokens=1)])  # a step that brings the worker the last news
        assert roomy.is_clean()
        seen.check_excuses()

    def test_the_drafter_is_loaded_once_and_its_pool_is_not_the_verifiers(
        self, roomy: TinyEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from vllm.v1.worker.cpu_worker import CPUWorker

        drafting = roomy.runner._drafting
        layers = set(roomy.runner.compilation_config.static_forward_context)
        own = {name for name in layers if name.startswith("asymspec_drafter")}
        assert own == set(drafting.drafter.layer_names)
        assert len(own) == 2
        assert not any("draft_model" in name for name in layers)
        assert set(roomy.runner.get_kv_cache_spec()).isdisjoint(own)

        worker = roomy.core.model_executor.driver_worker.worker
        monkeypatch.setattr(CPUWorker, "determine_available_memory", lambda self: 1 << 30)
        assert worker.determine_available_memory() == 1 << 30  # the user named the verifier's size
        monkeypatch.setattr(worker.cache_config, "kv_cache_memory_bytes", None)
        assert worker.determine_available_memory() == (1 << 30) - (16 << 20)
        with pytest.raises(Exception, match="reloaded"):
            worker.reload_weights()

    def test_a_warm_up_without_requests_leaves_the_pool_alone(
        self, roomy: TinyEngine, oracle: Oracle
    ) -> None:
        full, compressed = views(random.Random(9), 200, 40)
        before = roomy.answer([Ask(compressed, full)])
        roomy.answer([Ask([1, 2, 3], max_tokens=1)])  # a step that brings the worker the last news
        roomy.runner.profile_run()
        warm_up(roomy.runner._drafting.rounds)
        (after,) = roomy.answer([Ask(compressed, full)])
        assert after.tokens == before[0].tokens
        assert after.report is not None
        assert after.report["cached_tokens"]["drafter"] == 192

    @pytest.mark.parametrize("short_of", ["verifier", "pool"])
    def test_preempted_requests_go_on_as_if_nothing_had_been(
        self, engines: Engines, tmp_path: Path, short_of: str
    ) -> None:
        """Few blocks of either kind; on another architecture."""
        rng = random.Random(8)
        asks = []
        for _ in range(10):
            full, compressed = views(rng, rng.randint(60, 200), rng.randint(10, 60))
            asks.append(Ask(compressed, full, {"num_draft_tokens": rng.randint(1, K)}, max_tokens=60))
        engine = engines(
            save_pair(tmp_path, "llama"),
            {"pool_bytes": (34 if short_of == "pool" else 400) * BLOCK_BYTES, "prefill_tokens": 48},
            num_gpu_blocks_override=12 if short_of == "verifier" else None,
            max_model_len=256,
        )
        try:
            preempted = count_preemptions(engine)
            seen = Seen()
            for ask, answer in zip(asks, engine.answer(asks), strict=True):
                check(ask, answer, tiny_oracle("llama"), seen)
            seen.check_excuses()
            assert len(preempted) >= 3
            engine.answer([Ask([1, 2, 3], max_tokens=1)])
            assert engine.is_clean()
        finally:
            engine.close()
