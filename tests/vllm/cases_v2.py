"""The plugin on vLLM's second model runner: tests for the processes that test_exact_v2.py starts."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.register_assert_rewrite("tests.vllm.exactness")

from vllm.sampling_params import StructuredOutputsParams  # noqa: E402

from tests.engine.naive import Vector  # noqa: E402
from tests.engine.tiny_folder import byte_tokenizer  # noqa: E402

from .engines import Ask, K, TinyEngine, check, views  # noqa: E402
from .exactness import ROOMY, Engines, Exactness  # noqa: E402
from .models import VOCAB, modules, save_pair  # noqa: E402
from .oracle import NUM_IDS, Oracle, Seen, tiny_oracle  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

TOLERANCE = 1e-3


@pytest.fixture(scope="module", params=["async", "in-turn"])
def engines(request: pytest.FixtureRequest) -> Engines:
    """vLLM with engine and worker in this process; by default it schedules ahead of results, as on a GPU."""
    return functools.partial(TinyEngine, async_scheduling=request.param == "async")


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory, engines: Engines) -> Iterator[TinyEngine]:
    engine = engines(save_pair(tmp_path_factory.mktemp("pair")), ROOMY)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return tiny_oracle("qwen2")


def test_steps_are_scheduled_before_the_results_they_follow(roomy: TinyEngine, oracle: Oracle) -> None:
    is_async = roomy.scheduler.scheduler_config.async_scheduling
    assert type(roomy.runner).__mro__[1].__module__ == "vllm_asymspec.runner_v2"
    asks = [Ask(*reversed(views(random.Random(i), 90, 30)), {"num_draft_tokens": K}) for i in range(3)]
    names = [roomy.add(ask) for ask in asks]
    in_flight = 0
    answers = {}
    while roomy.llm.llm_engine.has_unfinished_requests():
        answers |= roomy.step()
        if is_async:
            assert roomy.core.batch_queue_size == 2
            placeholders = [request.num_output_placeholders for request in roomy.scheduler.running]
            in_flight = max([in_flight, *placeholders])
    assert in_flight == (K + 1 if is_async else 0)  # of a step whose result is still out
    seen = Seen()
    for ask, name in zip(asks, names, strict=True):
        check(ask, answers[name], oracle, seen)
    seen.check_excuses()


def test_a_prompt_of_which_one_token_is_new(roomy: TinyEngine, oracle: Oracle) -> None:
    """vLLM pads its step with placeholders for drafts."""
    full, compressed = views(random.Random(1), 100, 65)
    seen = Seen()
    for num_cached in (0, 64):
        (answer,) = roomy.answer([Ask(compressed, full)])
        check(Ask(compressed, full), answer, oracle, seen)
        assert answer.num_cached == num_cached
    seen.check_excuses()


class Processed(Oracle):
    """The naive rule with the verifier's logits changed as a request asks: `change(logits, prompt, text)`."""

    def __init__(self, change: Any) -> None:
        super().__init__(*modules("qwen2"), NUM_IDS)
        self._change = change

    def _reader(self, rows: Any, prompt: Sequence[int], tokens: Sequence[int]) -> Any:
        reader = super()._reader(rows, prompt, tokens)
        if rows is not self._verifier:
            return reader

        def changed(text: Sequence[int], vocab_size: int) -> Vector:
            logits = self._change(rows((*prompt, *text)), prompt, text)[:vocab_size]
            normal: Vector = logits - np.logaddexp.reduce(logits)
            return normal

        return changed


def among_the_allowed(logits: Vector, prompt: Sequence[int], text: Sequence[int]) -> Vector:
    logits[[*range(50), *range(150, VOCAB)]] = -math.inf
    return logits


def penalised(logits: Vector, prompt: Sequence[int], text: Sequence[int]) -> Vector:
    known = list({*prompt, *text})
    logits[known] = np.where(logits[known] > 0, logits[known] / 1.3, logits[known] * 1.3)
    counts = np.bincount(np.array(text, dtype=int), minlength=VOCAB)
    return logits - 1.5 * counts - 2.0 * (counts > 0)


def not_yet_over(logits: Vector, prompt: Sequence[int], text: Sequence[int]) -> Vector:
    if len(text) < 10:
        logits[[*range(100), byte_tokenizer().eos_token_id]] = -math.inf
    return logits


@pytest.mark.parametrize(
    ("sampling", "change"),
    [
        ({"allowed_token_ids": list(range(50, 150))}, among_the_allowed),
        ({"repetition_penalty": 1.3, "frequency_penalty": 1.5, "presence_penalty": 2.0}, penalised),
        ({"min_tokens": 10, "stop_token_ids": list(range(100))}, not_yet_over),
    ],
    ids=["allowed", "penalties", "min_tokens"],
)
def test_what_a_request_does_to_the_verifiers_logits(
    roomy: TinyEngine, sampling: dict[str, Any], change: Any
) -> None:
    rng = random.Random(3)
    oracle, seen = Processed(change), Seen()
    asks = []
    for num_drafts in range(1, K + 1):
        full, compressed = views(rng, 120, 40)
        asks.append(Ask(compressed, full, {"num_draft_tokens": num_drafts}, sampling=sampling))
    plain = Ask([rng.randrange(256) for _ in range(30)])
    *answers, stock = roomy.answer([*asks, plain])
    for ask, answer in zip(asks, answers, strict=True):
        assert ask.full is not None
        oracle.check(ask.full, ask.compressed, ask.parsed, answer.tokens, seen)
        assert len(answer.tokens) == ask.max_tokens or answer.tokens[-1] < 100
    seen.check_excuses()
    assert stock.tokens == roomy.answer([plain])[0].tokens


def test_log_probabilities_are_the_verifiers_of_what_was_emitted(roomy: TinyEngine, oracle: Oracle) -> None:
    rng = random.Random(4)
    asks = [
        Ask(
            *reversed(views(rng, 120, 40)),
            {"num_draft_tokens": num_drafts, "bonus": bonus},
            sampling={"logprobs": 2},
        )
        for num_drafts in (1, K)
        for bonus in ("rule", "none", "verifier")
    ]
    asks.append(Ask(asks[0].compressed, sampling={"logprobs": 2}))
    names = [roomy.add(ask) for ask in asks]
    outputs = {}
    while roomy.llm.llm_engine.has_unfinished_requests():
        outputs |= {output.request_id: output.outputs[0] for output in roomy.llm.llm_engine.step()}
    for ask, name in zip(asks, names, strict=True):
        output = outputs[name]
        tokens = list(output.token_ids)
        assert len(output.logprobs) == len(tokens) == ask.max_tokens
        reader = oracle._reader(oracle._verifier, ask.compressed, tokens)
        for index, (token, told) in enumerate(zip(tokens, output.logprobs, strict=True)):
            wanted = reader(tokens[:index], VOCAB)
            assert abs(told[token].logprob - wanted[token]) < TOLERANCE
            assert told[token].rank == 1 + (wanted > wanted[token]).sum()


def test_verification_in_parts(roomy: TinyEngine, oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM splits a batch whose logits are too large for its work space."""
    rng = random.Random(5)
    asks = [Ask(*reversed(views(rng, 60, 30)), {"num_draft_tokens": 1 + i % K}) for i in range(6)]
    whole = roomy.answer(asks)
    monkeypatch.setattr("vllm.v1.worker.gpu.spec_decode.rejection_sampler.MAX_CHUNK_BYTES", 7 * VOCAB * 4)
    seen = Seen()
    for ask, answer, before in zip(asks, roomy.answer(asks), whole, strict=True):
        check(ask, answer, oracle, seen)
        assert answer.tokens == before.tokens
        assert answer.report is not None
        assert before.report is not None
        assert answer.report["accepted"] == before.report["accepted"]
    seen.check_excuses()


def test_drafts_that_the_grammar_did_not_see_are_not_judged(
    roomy: TinyEngine, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM may send masks for the first place only, and masks that allow everything behind it."""
    original = roomy.scheduler.get_grammar_bitmask

    def for_the_first_place(scheduled: Any) -> Any:
        told = original(scheduled)
        if told is None:
            return None
        masks, row = told.grammar_bitmask.copy(), 0
        for req_id in told.structured_output_request_ids:
            behind = row + 1 + len(scheduled.scheduled_spec_decode_tokens.get(req_id, ()))
            masks[row + 1 : behind] = -1
            row = behind
        num_acceptable = [0] * len(told.structured_output_request_ids)
        return dataclasses.replace(told, grammar_bitmask=masks, num_acceptable_drafts=num_acceptable)

    monkeypatch.setattr(roomy.scheduler, "get_grammar_bitmask", for_the_first_place)
    full, compressed = views(random.Random(8), 150, 40)
    regex = StructuredOutputsParams(regex="[!-~]{24}")
    printable = byte_tokenizer().convert_tokens_to_ids([chr(code) for code in range(ord("!"), ord("~") + 1)])
    for bonus in ("rule", "verifier"):
        options = {
            "num_draft_tokens": K,
            "gamma": 0.0,
            "bonus": bonus,
        }  # all that the mask allows would stand
        ask = Ask(compressed, full, options, sampling={"structured_outputs": regex})
        (answer,) = roomy.answer([ask])
        seen = Seen()
        check(ask, answer, oracle, seen, allowed=[printable] * 24)
        seen.check_excuses()


class Unread(TorchDispatchMode):
    """Fails where a value of a tensor becomes one of the host's, or decides a shape."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2"):
            raise AssertionError(f"{name}: the host would wait for the device")
        return func(*args, **(kwargs or {}))


def test_neither_drafting_nor_judging_reads_from_the_device(
    roomy: TinyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = roomy.runner._drafting.rounds
    calls = []

    def watched(name: str) -> Any:
        original = getattr(rounds, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            with Unread():
                return original(*args, **kwargs)

        return call

    for name in ("propose", "verify", "drafts"):
        monkeypatch.setattr(rounds, name, watched(name))
    full, compressed = views(random.Random(6), 60, 30)
    modes = ("asymspec", "strict", "scaled", "product", "scd_delta", "raw_full")
    roomy.answer([Ask(compressed, full, {"mode": mode}) for mode in modes])
    assert {"propose", "verify", "drafts"} == set(calls)
    with pytest.raises(AssertionError, match="wait"), Unread():
        torch.ones(1).item()


def test_vllms_own_warm_up_steps_bring_no_plan(roomy: TinyEngine, oracle: Oracle) -> None:
    from vllm.v1.worker.gpu.warmup import run_mixed_prefill_decode_warmup

    roomy.answer([Ask([1, 2, 3], max_tokens=1)])
    worker = roomy.core.model_executor.driver_worker.worker
    assert run_mixed_prefill_decode_warmup(roomy.runner, worker.execute_model, worker.sample_tokens, 16)
    full, compressed = views(random.Random(7), 60, 30)
    (answer,) = roomy.answer([Ask(compressed, full)])
    seen = Seen()
    check(Ask(compressed, full), answer, oracle, seen)
    seen.check_excuses()


class TestSecondRunner(Exactness):
    """All of them; the last ones make engines of their own, which end `roomy`."""
