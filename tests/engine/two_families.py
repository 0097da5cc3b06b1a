"""A verifier and a drafter of random weights with different tokenizers, whose drafts are sometimes right."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.transcript import Transcriber
from asymspec_agents.engine.arms import arm_named
from asymspec_agents.engine.cross_family import CrossFamily
from asymspec_agents.engine.engine import DecodeRequest, Engine, EngineOptions
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.recording import NULL_RECORDER, Recorder
from tests.decoding.made_tokenizers import made, speller, transcriber, vocabulary

from .naive import Naive, Reader, Rows, Vector
from .runs import Run
from .tiny import SHAPE

__all__ = ["ForeignReader", "models", "naive", "prompts", "run", "two_family_engine"]

PAIRS = [("words", "digits"), ("digits", "words"), ("words", "pieces"), ("pieces", "digits")]
TEXT = (
    "The committee of 2024 said that 1,250 prices were approved. See 東京 and café: "
    "def total(x): return 12\n\n"
)
NOWHERE = -1e4  # log-probability of what a drafter cannot say


@functools.cache
def models(verifier: str, drafter: str) -> tuple[CausalModel, CausalModel]:
    """The drafter is the verifier with noise, its tokens' embeddings those of their counterparts."""
    mine, own = vocabulary(verifier), vocabulary(drafter)
    large, small = _module(len(mine) + 8, 0), _module(len(own) + 3, 1)
    with torch.no_grad():
        blocks = zip(small.model.parameters(), large.model.parameters(), strict=True)
        for theirs, ours in (pair for pair in blocks if pair[0].shape == pair[1].shape):
            theirs.mul_(0.03).add_(ours, alpha=0.97)
        pairs = transcriber(verifier, drafter).to_drafter
        for weights in (lambda m: m.get_input_embeddings(), lambda m: m.get_output_embeddings()):
            theirs, ours = weights(small).weight, weights(large).weight
            theirs[list(pairs.values())] = ours[list(pairs)]
        alone = [number for number in range(len(mine)) if number not in pairs]
        large.get_output_embeddings().weight[alone] *= 1.35  # so that the verifier writes them now and then
    for module, found in ((large, mine), (small, own)):
        module.generation_config.eos_token_id = [*found.end_of_text, found.end_of_turn]
    return CausalModel(large, f"{verifier}-model"), CausalModel(small, f"{drafter}-model")


def _module(vocab_size: int, seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    module = Qwen2ForCausalLM(Qwen2Config(**{**SHAPE, "vocab_size": vocab_size}))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(4.0)
        module.get_output_embeddings().weight.mul_(0.75)
    return module.float().eval()


def two_family_engine(
    verifier: str, drafter: str, *, recorder: Recorder = NULL_RECORDER, options: EngineOptions | None = None
) -> Engine:
    """An engine over the two, through the map of their vocabularies; of one family, through the identity."""
    large, small = models(verifier, drafter)
    family = CrossFamily.of(transcriber(verifier, drafter), large, small, made(drafter))
    size = len(vocabulary(verifier))
    return Engine(large, small, made(verifier), size, options=options, recorder=recorder, family=family)


def prompts(verifier: str, drafter: str, seed: int) -> dict[str, list[int]]:
    """Both views as each model reads them."""
    generator = random.Random(seed)
    words = TEXT.split(" ")
    full = " ".join(generator.choices(words, k=24)).encode()
    short = " ".join(generator.choices(words, k=9)).encode()
    return {
        "full": speller(verifier).ids(full),
        "compressed": speller(verifier).ids(short),
        "drafter_full": speller(drafter).ids(full),
        "drafter_compressed": speller(drafter).ids(short),
    }


def run(
    engine: Engine,
    views: dict[str, list[int]],
    *,
    arm: str = "asymspec",
    max_tokens: int = 30,
    **options: Any,
) -> Run:
    """Decodes to the end; options of DecodeRequest by name, all others are AsymSpecOptions."""
    fields = {name: options.pop(name) for name in ("grammar", "stop", "cache_salt") if name in options}
    request = DecodeRequest(
        **views, arm=arm_named(arm), options=AsymSpecOptions.of(**options), max_tokens=max_tokens, **fields
    )
    stream = engine.decode(request)
    steps = []
    while True:
        try:
            steps.append(next(stream))
        except StopIteration as end:
            return Run(tuple(steps), end.value)


class ForeignReader:
    """The drafter read anew at every position: the text in its own tokens, its logits over the pairs."""

    def __init__(self, rows: Rows, prompt: Sequence[int], transcriber: Transcriber) -> None:
        self._rows = rows
        self._prompt = prompt
        self._transcriber = transcriber

    def __call__(self, text: Sequence[int], vocab_size: int) -> Vector:
        transcript = self._transcriber.begin()
        transcript.push(text)
        logits = self._rows((*self._prompt, *transcript.tokens))
        pairs = self._transcriber.to_drafter
        found = logits[list(pairs.values())]
        result = np.full(vocab_size, NOWHERE)
        result[list(pairs)] = found - found.max() - np.log(np.exp(found - found.max()).sum())
        return result


@functools.cache
def _rows(verifier: str, drafter: str) -> tuple[Rows, Rows]:
    large, small = models(verifier, drafter)
    return Rows(large.module), Rows(small.module)


def naive(verifier: str, drafter: str, views: dict[str, list[int]], options: AsymSpecOptions) -> Naive:
    """The slow decoder of a pair of two families."""
    rule: Rule = options.rule()
    large, small = _rows(verifier, drafter)
    writing = transcriber(verifier, drafter)
    foreign = [ForeignReader(small, views[name], writing) for name in ("drafter_full", "drafter_compressed")]
    made_naive = Naive(
        rule,
        options.num_draft_tokens,
        options.bonus,
        len(vocabulary(verifier)),
        verifier=Reader(large, tuple(views["compressed"])),
    )
    return replace(made_naive, drafter=foreign[0], base=foreign[1] if rule.needs_base else None)  # type: ignore[arg-type]
