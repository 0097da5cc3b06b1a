"""Time and memory of the arms on one device, with the outcome of every draft decided by a seeded coin.

Random models agree on nothing, so only the gate's verdict is replaced: all forwards, the rule's own tensor
work and the roll-back of all caches are those of the engine.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch import Tensor

from asymspec_agents.decoding.modes import MODES, BonusMode, Rule
from asymspec_agents.decoding.rule import BlockResult, verify_block
from asymspec_agents.engine import loop
from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.loop import Block, Readers, blocks
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import View

from .gpu_models import SpeedPair

__all__ = ["SPEED_ARMS", "CoinVerdicts", "Measured", "Prompt", "SpeedArm", "measure"]

ViewName = Literal["full", "compressed"]
Check = Callable[[], None]

WARM_UP_TOKENS = 8
ROOM_TOKENS = 32  # cache positions beyond prompt and answer: drafts ahead, bare forwards
NUM_BARE_FORWARDS = 7


@dataclass(frozen=True, slots=True)
class SpeedArm:
    """Which model reads which view. `drafting` None: plain greedy decoding."""

    name: str
    verifying: ViewName
    drafting: ViewName | None = None
    base: ViewName | None = None
    rule: Rule = MODES["strict"]
    num_draft_tokens: int = 0
    bonus: BonusMode = "verifier"  # lossless arms lose nothing by the verifier's own token, and save a draft

    @property
    def num_places(self) -> int:
        """Drafts per block."""
        return self.num_draft_tokens + (self.bonus == "rule")


SPEED_ARMS = (
    SpeedArm("Floor", "compressed"),
    SpeedArm("Ceiling", "full"),
    SpeedArm("symmetric SD", "full", "full", num_draft_tokens=2),
    SpeedArm("AsymSpec", "compressed", "full", "compressed", MODES["asymspec"], 2, "rule"),
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Random token ids of both views; the compressed one is `share` of the full one."""

    full: list[int]
    compressed: list[int]

    @classmethod
    def of(cls, num_tokens: int, share: float, vocab_size: int, seed: int) -> Prompt:
        """A prompt whose full view has `num_tokens`."""
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, vocab_size, (num_tokens,), generator=generator).tolist()
        return cls(ids, ids[: max(2, round(share * num_tokens))])

    def ids(self, view: ViewName) -> list[int]:
        """The ids of a view."""
        return self.full if view == "full" else self.compressed


@dataclass(frozen=True, slots=True)
class Measured:
    """One arm on one prompt. Seconds are wall time; `num_tokens` may exceed the asked ones by a block's end.

    time_to_first_token_s: prefill of every view and the first block. bare_block_s: the forwards of a block
    timed alone, to compare block_s with. peak_bytes: weights of the models the arm uses, caches, activations;
    None off the GPU. `blocks`, `drafted`, `accepted` count what was decoded.
    """

    arm: str
    full_tokens: int
    compressed_tokens: int
    num_tokens: int
    time_to_first_token_s: float
    decode_tokens_per_s: float
    total_s: float
    block_s: float
    bare_block_s: float
    blocks: int
    drafted: int
    accepted: int
    peak_bytes: int | None


class CoinVerdicts:
    """`verify_block` with its verdict replaced: a draft stands by the coin of its place in the answer.

    One coin per output position, so that arms with other blocks meet the same refusals. A refused draft ends
    its block and is emitted as the fused token. Blocks without drafts keep their verdict.
    """

    def __init__(self, acceptance: float, seed: int) -> None:
        self._acceptance = acceptance
        self._random = random.Random(seed)
        self._coins: list[bool] = []
        self._num_emitted = 0

    def __call__(
        self,
        rule: Rule,
        drafts: Tensor,
        drafter: Tensor | None,
        base: Tensor | None,
        verifier: Tensor,
        **kwargs: Any,
    ) -> BlockResult:
        result = verify_block(rule, drafts, drafter, base, verifier, **kwargs)
        num_places = drafts.shape[1]
        if num_places == 0:
            return result
        num_accepted = 0
        while num_accepted < num_places and self._coin(self._num_emitted + num_accepted):
            num_accepted += 1
        is_refused = num_accepted < num_places
        has_bonus = not is_refused and verifier.shape[1] > num_places
        tokens = torch.full_like(result.tokens, -1)
        num_drafts = num_accepted + is_refused
        tokens[:, :num_drafts] = drafts[:, :num_drafts]
        if has_bonus:
            tokens[:, num_places] = verifier[:, num_places, : kwargs.get("vocab_size")].argmax(dim=-1)
        self._num_emitted += num_drafts + has_bonus
        return replace(
            result,
            tokens=tokens,
            num_tokens=torch.full_like(result.num_tokens, num_drafts + has_bonus),
            num_accepted=torch.full_like(result.num_accepted, num_accepted),
            num_fused=torch.full_like(result.num_fused, int(is_refused)),
            num_bonus=torch.full_like(result.num_bonus, int(has_bonus)),
            num_judged=torch.full_like(result.num_judged, num_drafts),
        )

    def _coin(self, place: int) -> bool:
        while len(self._coins) <= place:
            self._coins.append(self._random.random() < self._acceptance)
        return self._coins[place]


def measure(
    pair: SpeedPair,
    arm: SpeedArm,
    prompt: Prompt,
    num_tokens: int,
    acceptance: float,
    seed: int,
    check: Check,
) -> Measured:
    """One arm's figures, warmed up on the same prompt; `check` may raise before each chunk and block."""
    _decode(pair, arm, prompt, min(num_tokens, WARM_UP_TOKENS), CoinVerdicts(acceptance, seed), check)
    device = pair.verifier.device
    on_gpu = device.type == "cuda"
    _synchronize(device)
    resident = torch.cuda.memory_allocated(device) if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    run = _decode(pair, arm, prompt, num_tokens, CoinVerdicts(acceptance, seed), check)
    peak_bytes = None
    if on_gpu:
        weights = _weight_bytes(pair.verifier) + (_weight_bytes(pair.drafter) if arm.drafting else 0)
        peak_bytes = torch.cuda.max_memory_allocated(device) - resident + weights
    later = run.blocks[1:]
    decode_s = run.ended_s - run.first_block_s
    return Measured(
        arm=arm.name,
        full_tokens=len(prompt.full),
        compressed_tokens=len(prompt.compressed),
        num_tokens=sum(len(block.tokens) for block in run.blocks),
        time_to_first_token_s=run.first_block_s,
        decode_tokens_per_s=sum(len(block.tokens) for block in later) / decode_s if later else 0.0,
        total_s=run.ended_s,
        block_s=decode_s / len(later) if later else 0.0,
        bare_block_s=_bare_block_s(arm, run.readers),
        blocks=len(run.blocks),
        drafted=sum(block.num_drafted for block in run.blocks),
        accepted=sum(block.origins.count("accepted") for block in run.blocks),
        peak_bytes=peak_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    readers: Readers
    blocks: list[Block]
    first_block_s: float
    ended_s: float


def _decode(
    pair: SpeedPair, arm: SpeedArm, prompt: Prompt, num_tokens: int, verdicts: CoinVerdicts, check: Check
) -> _Run:
    """Prefill and at least `num_tokens` from fresh caches; times count from here."""
    device = pair.verifier.device

    def view(model: CausalModel, name: ViewName) -> View:
        cache = KVCache()
        cache.reserve(len(prompt.ids(name)) + num_tokens + ROOM_TOKENS)
        return View(model, prompt.ids(name), cache)

    done: list[Block] = []
    num_done, first_block_s = 0, 0.0
    _synchronize(device)
    started = time.perf_counter()
    readers = Readers(
        view(pair.verifier, arm.verifying),
        view(pair.drafter, arm.drafting) if arm.drafting else None,
        view(pair.drafter, arm.base) if arm.base else None,
    )
    for reader in readers.all():
        reader.prefill(check)
    vocab_size = min(pair.verifier.vocab_size, pair.drafter.vocab_size)
    with patch.object(loop, "verify_block", verdicts):
        stream = blocks(readers, arm.rule, arm.num_draft_tokens, arm.bonus, vocab_size)
        while num_done < num_tokens:
            check()
            done.append(next(stream))
            num_done += len(done[-1].tokens)
            if len(done) == 1:
                _synchronize(device)
                first_block_s = time.perf_counter() - started
    _synchronize(device)
    return _Run(readers, done, first_block_s, time.perf_counter() - started)


def _bare_block_s(arm: SpeedArm, readers: Readers) -> float:
    """The median times of a block's forwards, added up, on the caches as the run left them."""
    if readers.drafter is None:
        return _forward_s(readers.verifier, 1)
    total = arm.num_places * _forward_s(readers.drafter, 1)
    if readers.base is not None:
        total += _forward_s(readers.base, arm.num_places)
    return total + _forward_s(readers.verifier, arm.num_places + (arm.bonus == "verifier"))


def _forward_s(view: View, num_tokens: int) -> float:
    ids = torch.zeros((1, num_tokens), dtype=torch.long, device=view.model.device)
    length, times = view.cache.length, []
    for _ in range(NUM_BARE_FORWARDS):
        _synchronize(view.model.device)
        started = time.perf_counter()
        view.model.forward(ids, view.cache, num_tokens)
        _synchronize(view.model.device)
        times.append(time.perf_counter() - started)
        view.cache.rewind(length)
    return statistics.median(times)


def _weight_bytes(model: CausalModel) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.module.parameters())


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
