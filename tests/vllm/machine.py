"""Scheduler and runner around the draft rounds, as simple as they can be, with a paper drafter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from asymspec_agents.decoding.modes import MODES, Rule
from asymspec_agents.protocol import AsymSpecOptions
from tests.engine.naive import EXCUSED_MARGIN, Naive, Reader, judge
from vllm_asymspec.plan import Blocks, Chunk, NewRequest, StepPlan, ViewName, ViewPrompt
from vllm_asymspec.rounds import Rounds
from vllm_asymspec.slots import Shape

from .paper_drafter import LOGITS_SIZE, VOCAB, PaperDrafter, logits_of

__all__ = ["BLOCK_SIZE", "K", "Machine", "Request", "options", "prompts", "verifiers"]

BLOCK_SIZE = 4
NUM_BLOCKS = 400
MAX_POSITIONS = 64
K = 4
GATES = ("cda", "fixed", "position", "fused_greedy", "slack", "strict")
DELTAS = ("context", "full", "scd", "none")


def reader(model: str, prompt: Sequence[int]) -> Reader:
    return Reader(lambda sequence: logits_of(model, sequence), tuple(prompt))  # type: ignore[arg-type]


@dataclass
class Request:
    """A request as scheduler and runner see it together; the verifier reads `base` or its own prompt."""

    name: str
    full: list[int]
    base: list[int]
    options: dict[str, Any]
    verifiers: list[int] | None = None
    tables: dict[ViewName, list[int]] = field(default_factory=dict)
    answer: list[int] = field(default_factory=list)
    num_excused: int = 0
    counts: Any = None

    @property
    def prompt(self) -> list[int]:
        return self.base if self.verifiers is None else self.verifiers

    @property
    def strict(self) -> bool:
        return self.full == self.base and self.options.get("identical_views") != "gate"

    @property
    def parsed(self) -> AsymSpecOptions:
        return AsymSpecOptions.of(**self.options)

    @property
    def rule(self) -> Rule:
        return Rule("strict", "none") if self.strict else self.parsed.rule()

    @property
    def has_base(self) -> bool:
        return self.rule.needs_base and self.full != self.base

    def views(self) -> dict[ViewName, list[int]]:
        return {"full": self.full} | ({"base": self.base} if self.has_base else {})

    def announced(self) -> NewRequest:
        """What the plan says of it."""
        return NewRequest(
            self.name,
            self.has_base,
            len(self.prompt),
            ViewPrompt(len(self.full) - len(self.prompt), tuple(self.full[-2:])),
            ViewPrompt(len(self.base) - len(self.prompt), tuple(self.base[-2:])),
            self.options,
            self.strict,
        )

    def naive(self) -> Naive:
        base = self.full if self.full == self.base else self.base
        return Naive(
            self.rule,
            1,
            "rule",
            VOCAB,
            verifier=reader("verifier", self.prompt),
            drafter=reader("drafter", self.full),
            base=reader("drafter", base) if self.rule.needs_base else None,
        )


class Machine:
    """Scheduler and runner around the rounds, both as simple as they can be."""

    def __init__(self, rng: random.Random, num_slots: int = 3) -> None:
        self.rng = rng
        self.drafter = PaperDrafter(NUM_BLOCKS, BLOCK_SIZE, max_tokens=7)
        shape = Shape(num_slots, K + 1, VOCAB, LOGITS_SIZE, MAX_POSITIONS, BLOCK_SIZE)
        self.rounds = Rounds(self.drafter, shape, torch.float32, torch.device("cpu"))
        self.free = list(range(1, NUM_BLOCKS))
        rng.shuffle(self.free)
        self.running: dict[str, Request] = {}
        self.gone: list[str] = []

    def start(self, request: Request) -> None:
        """A new or resumed request: its slot, tables and chunks up to the last token but two."""
        self.running[request.name] = request
        self.apply(new=(request.announced(),))
        pieces = {view: self._cut([*ids, *request.answer][:-2]) for view, ids in request.views().items()}
        while any(pieces.values()):
            chunks = []
            for view, rest in pieces.items():
                if rest and self.rng.random() < 0.8:
                    start, ids = rest.pop(0)
                    chunks.append(Chunk(request.name, view, start, np.array(ids, dtype="<i4").tobytes()))
            self.apply(blocks=self.extensions(request, 0), chunks=tuple(chunks))

    def _cut(self, ids: list[int]) -> list[tuple[int, list[int]]]:
        pieces = []
        start = 0
        while start < len(ids):
            size = self.rng.randint(1, 12)
            pieces.append((start, ids[start : start + size]))
            start += size
        return pieces

    def extensions(self, request: Request, num_more: int) -> tuple[Blocks, ...]:
        blocks = []
        for view, ids in request.views().items():
            table = request.tables.get(view)
            needed = -(-(len(ids) + len(request.answer) + num_more) // BLOCK_SIZE)
            fresh = [self.free.pop() for _ in range(needed - len(table or ()))]
            if fresh:
                request.tables.setdefault(view, []).extend(fresh)
                blocks.append(Blocks(request.name, view, tuple(fresh), replace=table is None))
        return tuple(blocks)

    def apply(self, **fields: Any) -> None:
        self.rounds.apply(StepPlan(gone=tuple(self.gone), **fields))
        self.gone = []

    def stop(self, name: str) -> Request:
        request = self.running.pop(name)
        self.gone.append(name)
        for table in request.tables.values():
            self.free += table
        self.rng.shuffle(self.free)
        request.tables = {}
        return request

    def step(self, names: Sequence[str], num_scheduled: Sequence[int]) -> None:
        """One step for these requests: first rounds, the verdict, the next rounds."""
        requests = [self.running[name] for name in names]
        self.apply(blocks=sum((self.extensions(r, 2 * (K + 1)) for r in requests), ()))
        fresh = [request for request in requests if not self.rounds.has_round(request.name)]
        self.propose(fresh, places=1)
        drafts = self.rounds.drafts(names).tolist()
        read = [
            0 if request in fresh else min(wanted, request.parsed.num_draft_tokens)
            for request, wanted in zip(requests, num_scheduled, strict=True)
        ]
        padded = [
            K if request in fresh and self.rng.random() < 0.3 else n
            for request, n in zip(requests, read, strict=True)
        ]
        logits = np.full((len(names), max(padded) + 1, VOCAB + 1), np.nan, dtype=np.float32)
        for row, request in enumerate(requests):
            for place in range(read[row] + 1):
                sequence = [*request.prompt, *request.answer, *drafts[row][:place]]
                logits[row, place] = logits_of("verifier", sequence)[: VOCAB + 1]
        verdict = self.rounds.verify(names, torch.from_numpy(logits), np.array(padded))
        taken = self.rounds.take_counts()
        assert taken is not None
        counts = taken.read()
        assert counts.req_ids == tuple(names)
        for row, request in enumerate(requests):
            emitted = verdict.tokens[row, : int(verdict.num_tokens[row])].tolist()
            assert (verdict.tokens[row, len(emitted) :] == -1).all()
            check(request, emitted, read[row], counts.counts[row])
            request.answer += emitted
        self.propose(requests, places=self.rounds.num_places(names))

    def propose(self, requests: Sequence[Request], places: int) -> None:
        views = [[*r.prompt, *r.answer] for r in requests]
        self.rounds.propose(
            [r.name for r in requests],
            torch.tensor([([0, *view])[-2:] for view in views]).reshape(-1, 2),
            torch.tensor([len(view) for view in views], dtype=torch.int64),
            np.array(
                [
                    len(view) + (self.rng.randint(0, 3) if request.answer else 0)
                    for view, request in zip(views, requests, strict=True)
                ]
            ),
            places=places,
        )


def check(request: Request, emitted: list[int], num_read: int, counts: Any) -> None:
    """Every token is the naive one for its prefix; the counts say how it came about."""
    bonus, rule, naive = request.parsed.bonus, request.rule, request.naive()
    num_places = 1 if num_read == 0 else num_read + (bonus == "rule")
    accepted = fused = 0
    for place, token in enumerate(emitted):
        text = [*request.answer, *emitted[:place]]
        t, a = naive.verifier(text, VOCAB), naive.drafter(text, VOCAB)  # type: ignore[misc]
        if place == num_places:
            assert bonus == "verifier"
            assert token == int(t.argmax())
            continue
        b = None if naive.base is None else naive.base(text, VOCAB)
        verdict = judge(rule, int(a.argmax()), place + 1, t, a, b)
        wanted = int(a.argmax()) if verdict.accepted else verdict.fused
        if verdict.margin < EXCUSED_MARGIN:
            request.num_excused += 1
        else:
            assert token == wanted, (request, place)
        accepted += verdict.accepted
        fused += not verdict.accepted
        assert verdict.accepted or place == len(emitted) - 1
    if request.num_excused == 0:
        has_bonus = num_read > 0 and bonus == "verifier" and not fused
        assert counts[:5].tolist() == [num_places, accepted, fused, has_bonus, accepted + fused]
        assert len(emitted) == accepted + fused + has_bonus
        assert 0 <= counts[5] <= (accepted + fused) * np.log(2) + 1e-6


def prompts(rng: random.Random) -> tuple[list[int], list[int]]:
    """Two views: any lengths from one token, alike or not, ending alike or not."""
    full = [rng.randrange(VOCAB) for _ in range(rng.choice((1, 2, 3, 9, 20)))]
    kind = rng.randrange(4)
    if kind == 0:
        return full, list(full)
    base = [rng.randrange(VOCAB) for _ in range(rng.choice((1, 2, 5, 12)))]
    return full, base + (full[-2:] if kind == 1 else [])


def verifiers(rng: random.Random) -> list[int] | None:
    """A prompt that the verifier reads in place of the drafter's base view, or none."""
    num = rng.choice((0, 0, 1, 2, 7, 15))
    return [rng.randrange(VOCAB) for _ in range(num)] if num else None


def options(rng: random.Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "num_draft_tokens": rng.randint(1, K),
        "bonus": rng.choice(("rule", "rule", "none", "verifier")),
        "beta": rng.choice((0.0, 0.5, 1.0, 2.0)),
        "gamma": rng.choice((0.2, 0.5, 1.0)),
        "slack": rng.choice((0.3, 1.0)),
        "plausibility": rng.choice((0.0, 0.1)),
        "agreement": rng.random() < 0.2,
        "identical_views": rng.choice(("strict", "gate")),
    }
    if rng.random() < 0.4:
        return chosen | {"mode": rng.choice(sorted(MODES))}
    return chosen | {"gate": rng.choice(GATES), "delta": rng.choice(DELTAS)}
