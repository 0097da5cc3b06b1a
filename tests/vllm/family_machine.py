"""Scheduler's views and worker's rounds of a drafter of another family, with a drafter on paper between them.

Its pool holds token ids and its logits are a function of the sequence it finds there: whatever is read from
the wrong block, left unwritten or written over changes what is emitted.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.protocol import AsymSpecOptions
from tests.decoding.made_tokenizers import made, vocabulary
from tests.engine.naive import EXCUSED_MARGIN, Vector, judge
from vllm_asymspec.budget import DrafterShape, Limits, PoolShape
from vllm_asymspec.family import AUTO, Family
from vllm_asymspec.foreign_rounds import ForeignRounds
from vllm_asymspec.rows import Rows
from vllm_asymspec.slots import Shape
from vllm_asymspec.views import Views
from vllm_asymspec.wire_args import AsymSpecArgs, pack_ids

from .paper_drafter import PaperDrafter

__all__ = ["Asked", "FamilyMachine", "paper_family"]

BLOCK = 4
K = 3
MAX_POSITIONS = 2_000
NEVER = -1e4  # a log-probability whose exponential is 0


@functools.cache
def paper_family(verifier: str, drafter: str, *, is_thin: bool) -> Family:
    """What two of the made tokenizers need; `is_thin`: half of what both have is not mapped."""
    family = Family.of(
        AUTO,
        vocabulary(verifier),
        vocabulary(drafter),
        made(drafter),
        num_logits=(len(vocabulary(verifier)) + 5, len(vocabulary(drafter)) + 3),
        drafter_end_ids=[],
    )
    if not is_thin:
        return family
    pairs = list(family.vocab_map.to_drafter.items())[::2]
    thin = replace(
        family.vocab_map,
        verifier_ids=tuple(mine for mine, _ in pairs),
        drafter_ids=tuple(own for _, own in pairs),
    )
    transcriber = type(family.transcriber)(thin, vocabulary(verifier), family.transcriber.speller)
    return replace(family, transcriber=transcriber, num_mapped=len(thin), max_growth=200)


class _Paper(PaperDrafter):
    """A drafter with the ids of its own vocabulary."""

    def __init__(self, family: Family, num_blocks: int) -> None:
        super().__init__(num_blocks, BLOCK, max_tokens=23)
        self._family = family
        self.num_tokens_read = 0

    def read(self, rows: Rows) -> Tensor:
        self.num_tokens_read += len(rows.tokens)
        return super().read(rows)

    def logits(self, hidden: Tensor) -> Tensor:
        rows = []
        for index in hidden[:, 0].long().tolist():
            sequence = self._sequences[index]
            bad = min(sequence) < 0  # something it should have read was never written
            size = self._family.vocab_size + 3
            rows.append(np.full(size, math.nan) if bad else own_logits(self._family, sequence))
        return torch.from_numpy(np.array(rows, dtype=np.float32))


def _shared(family: Family, text: bytes) -> Vector:
    """What all think of texts that end alike, over the verifier's ids."""
    return np.random.default_rng([7, *text[-2:]]).normal(scale=1.5, size=family.num_ids)


def own_logits(family: Family, sequence: Sequence[int]) -> Vector:
    """The drafter's, over its own ids, the padding's included."""
    size = family.vocab_size
    logits = np.random.default_rng([1, *sequence]).normal(scale=0.7, size=size + 3)
    spelled = family.transcriber.drafter.spelled(sequence[-4:])
    shared = _shared(family, spelled)
    for own, mine in family.vocab_map.to_verifier.items():
        logits[own] += shared[mine]
    logits[size:] = 50.0
    return np.asarray(logits, dtype=np.float32).astype(np.float64)


def verifier_logits(family: Family, sequence: Sequence[int]) -> Vector:
    """The verifier's, padding included."""
    logits = np.random.default_rng([2, *sequence]).normal(scale=0.7, size=family.num_ids + 5)
    logits[: family.num_ids] += _shared(family, family.transcriber.verifier.spelled(sequence[-4:]))
    logits[family.num_ids :] = 50.0
    return np.asarray(logits, dtype=np.float32).astype(np.float64)


def _normal(logits: Vector) -> Vector:
    shifted = logits - logits.max()
    normal: Vector = shifted - math.log(np.exp(shifted).sum())
    return normal


@dataclass
class Asked:
    """A request: views in the drafter's ids, the compressed one in the verifier's, and its answer so far."""

    full: list[int]
    base: list[int]
    compressed: list[int]
    options: dict[str, Any]
    answer: list[int] = field(default_factory=list)
    num_excused: int = 0

    @property
    def parsed(self) -> AsymSpecOptions:
        return AsymSpecOptions.of(**self.options)

    @property
    def rule(self) -> Rule:
        is_strict = self.full == self.base and self.parsed.identical_views == "strict"
        return Rule("strict", "none") if is_strict else self.parsed.rule()


class FamilyMachine:
    """What scheduler and runner do with them, as simple as it can be."""

    def __init__(self, family: Family, rng: random.Random, *, num_blocks: int, num_slots: int = 3) -> None:
        self.family, self.rng = family, rng
        limits = Limits(
            PoolShape(num_blocks, BLOCK, 1),
            DrafterShape(1, 1, 8, 4, MAX_POSITIONS, family.vocab_size),
            max_model_len=MAX_POSITIONS,
            num_draft_tokens=K,
            num_steps_in_flight=1,
            max_growth=family.max_growth,
        )
        self.views = Views(limits, num_slots, family=family)
        self.drafter = _Paper(family, num_blocks)
        shape = Shape(num_slots, K + 1, family.num_ids, family.num_ids, MAX_POSITIONS, BLOCK)
        self.rounds = ForeignRounds(self.drafter, shape, torch.float32, torch.device("cpu"), family)
        self.asked: dict[str, Asked] = {}
        self.max_unread = 0

    def add(self, name: str, asked: Asked) -> None:
        """A request comes."""
        args = AsymSpecArgs(pack_ids(asked.full), asked.parsed, base_ids=pack_ids(asked.base))
        self.views.add(name, args, pack_ids(asked.compressed), None)
        self.asked[name] = asked

    def start(self, name: str) -> bool:
        """Reads a cold request, in pieces; False where there is no room."""
        if not self.views.begin(name, self.asked[name].answer):
            return False
        while self.views.num_to_read(name):
            self.views.read(name, self.rng.randint(1, 30))
            self.rounds.apply(self.views.take_plan())
        self.rounds.apply(self.views.take_plan())
        return True

    def stop(self, name: str) -> Asked:
        """The request is over."""
        self.views.remove(name)
        return self.asked.pop(name)

    def step(self, names: Sequence[str]) -> None:
        """A step of these requests: first rounds, the verdict, the next rounds."""
        if not names:
            return
        for name in names:
            assert self.views.cover(name, 0)
        self.rounds.apply(self.views.take_plan())
        self._propose([name for name in names if not self.rounds.has_round(name)], places=1)
        drafts = self.rounds.drafts(names).tolist()
        num_read = [
            self.rng.randint(0, self.asked[name].parsed.num_draft_tokens)
            if self.rounds.slots.last_rounds[name].max_read
            else 0
            for name in names
        ]
        logits = np.full((len(names), max(num_read) + 1, self.family.num_ids + 5), np.nan, dtype=np.float32)
        for row, name in enumerate(names):
            asked = self.asked[name]
            for place in range(num_read[row] + 1):
                sequence = [*asked.compressed, *asked.answer, *drafts[row][:place]]
                logits[row, place] = verifier_logits(self.family, sequence)
        verdict = self.rounds.verify(names, torch.from_numpy(logits), np.array(num_read))
        self.rounds.take_counts()
        for row, name in enumerate(names):
            emitted = verdict.tokens[row, : int(verdict.num_tokens[row])].tolist()
            self._check(self.asked[name], emitted, num_read[row])
            self.asked[name].answer += emitted
            assert self.views.write(name, emitted) is None
        self._propose(names, places=self.rounds.num_places(names))

    def _propose(self, names: Sequence[str], places: int) -> None:
        sequences = [[*self.asked[name].compressed, *self.asked[name].answer] for name in names]
        before = self.drafter.num_tokens_read
        self.rounds.propose(
            names,
            torch.tensor([([0] * (K + 1) + tokens)[-K - 1 :] for tokens in sequences]).reshape(-1, K + 1),
            torch.tensor([len(tokens) for tokens in sequences]),
            np.array([len(tokens) for tokens in sequences]),
            places=places,
        )
        for name in names:
            text = self.rounds._texts[name]
            written = self.family.begin()
            written.push(self.asked[name].answer)
            assert text.tokens == written.tokens
            assert self.views._entries[name].transcript is not None
            assert self.views._entries[name].transcript.tokens == written.tokens
        self.max_unread = max(self.max_unread, self.drafter.num_tokens_read - before)

    def _check(self, asked: Asked, emitted: Sequence[int], num_read: int) -> None:
        """Every token is the naive one for its prefix."""
        rule, num_places = asked.rule, num_read + (asked.parsed.bonus == "rule") if num_read else 1
        for place, token in enumerate(emitted):
            text = [*asked.answer, *emitted[:place]]
            t = _normal(verifier_logits(self.family, [*asked.compressed, *text])[: self.family.num_ids])
            if place == num_places:
                assert asked.parsed.bonus == "verifier"
                assert token == int(t.argmax())
                continue
            a, b = (self._read(prompt, text) for prompt in (asked.full, asked.base))
            verdict = judge(rule, int(a.argmax()), place + 1, t, a, b)
            wanted = int(a.argmax()) if verdict.accepted else verdict.fused
            if verdict.margin < EXCUSED_MARGIN:
                asked.num_excused += 1
            else:
                assert token == wanted

    def _read(self, prompt: Sequence[int], text: Sequence[int]) -> Vector:
        written = self.family.begin()
        written.push(text)
        vocab_map = self.family.vocab_map
        found = np.full(self.family.num_ids, NEVER)
        logits = own_logits(self.family, [*prompt, *written.tokens])
        found[list(vocab_map.verifier_ids)] = _normal(logits[list(vocab_map.drafter_ids)])
        return found
