"""Exactness on the device: the cached engine against a loop that reads every view anew for every block.

Both run in fp32 on small random models. The naive side continues from the engine's own tokens, so one
difference cannot hide the next; a difference is excused only where a decision hangs on less than
CLOSE_CALL in log-probability, and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import Qwen3Config

from asymspec_agents.decoding.modes import MODES, BonusMode, Rule
from asymspec_agents.decoding.rule import (
    BlockResult,
    RowParameters,
    divergence,
    log_probs,
    score,
    verify_block,
)
from asymspec_agents.engine import loop
from asymspec_agents.engine.loop import Readers, blocks
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import View

from .gpu_models import random_module

__all__ = ["SETTINGS", "Checked", "ExactPair", "Setting", "check_setting", "is_greedy_text"]

CLOSE_CALL = 1e-4  # nats; two kernels may order an fp32 sum differently
LOGIT_TOLERANCE = 2e-3  # on logits of about ±30: well above fp32 rounding (3e-5 seen), below that of TF32
VOCAB = 301
PADDED_VOCAB = 320  # ids from VOCAB on must never be emitted
WEIGHT_SCALE, HEAD_SCALE = 4.0, 40.0  # random initial logits are nearly uniform; scaled, models have opinions
DISAGREEMENT = 0.2  # how far the drafter's weights are from the verifier's


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to decode; `num_draft_tokens` 0 is plain greedy decoding of the verifier."""

    name: str
    rule: Rule
    num_draft_tokens: int
    bonus: BonusMode = "rule"


SETTINGS = (
    Setting("plain greedy", MODES["strict"], 0, "verifier"),
    Setting("strict K=3", MODES["strict"], 3, "verifier"),
    Setting("asymspec K=2", MODES["asymspec"], 2),
    Setting("asymspec K=4, verifier's bonus", MODES["asymspec"], 4, "verifier"),
    Setting("asymspec K=1, no bonus", MODES["asymspec"], 1, "none"),
    Setting("position K=3", Rule("position", "context"), 3),
    Setting("fixed_gate K=2", MODES["fixed_gate"], 2),
    Setting("raw_full K=2", MODES["raw_full"], 2),
    Setting("scd_delta K=3", MODES["scd_delta"], 3),
    Setting("scaled K=2", MODES["scaled"], 2),
    Setting("slack K=4", Rule("slack", "context", slack=0.3), 4),
    Setting("product K=2", MODES["product"], 2),
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one setting. `max_logit_error` is the largest |cached − naive| logit of any view."""

    name: str
    num_tokens: int
    num_accepted: int
    num_refused: int
    num_close_calls: int
    num_mismatches: int
    max_logit_error: float
    is_greedy: bool | None  # for lossless settings: whether the text is the verifier's own greedy text

    @property
    def is_exact(self) -> bool:
        """No unexcused difference, and logits equal up to rounding (NaN is a failure)."""
        return (
            self.num_mismatches == 0
            and self.max_logit_error <= LOGIT_TOLERANCE
            and self.is_greedy is not False
        )


@dataclass(frozen=True, slots=True)
class ExactPair:
    """Two small models that often agree, and a prompt of either view."""

    verifier: CausalModel
    drafter: CausalModel
    full: list[int]
    compressed: list[int]

    @classmethod
    def build(cls, device: torch.device, full_tokens: int) -> ExactPair:
        """The pair on `device`: grouped-query attention, vocabulary padded beyond what may be emitted.

        The compressed view is the last quarter of the full one.
        """
        config = Qwen3Config(
            vocab_size=PADDED_VOCAB,
            hidden_size=128,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
        )
        # Filled on the CPU, so that every device decodes with the same weights.
        verifier, drafter = (
            random_module(config, seed=seed, dtype=torch.float32, device=torch.device("cpu"))
            for seed in range(2)
        )
        with torch.no_grad():
            for module in (verifier, drafter):
                for weight in module.parameters():
                    weight.mul_(WEIGHT_SCALE if weight.dim() > 1 else 1.0)
                head = module.get_output_embeddings()  # type: ignore[no-untyped-call]
                head.weight.mul_(HEAD_SCALE / WEIGHT_SCALE)
            for mine, theirs in zip(drafter.parameters(), verifier.parameters(), strict=True):
                mine.mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
        generator = torch.Generator().manual_seed(3)
        ids = torch.randint(0, VOCAB, (full_tokens,), generator=generator).tolist()
        large, small = (
            CausalModel(module.to(device), name)  # type: ignore[arg-type]  # nn.Module.to, wrapped untyped
            for module, name in ((verifier, "verifier"), (drafter, "drafter"))
        )
        return cls(large, small, ids, ids[-(full_tokens // 4) :])

    def readers(self, setting: Setting) -> Readers:
        """Fresh, prefilled views for a setting."""
        drafts = setting.num_draft_tokens > 0
        readers = Readers(
            View(self.verifier, self.compressed),
            View(self.drafter, self.full) if drafts else None,
            View(self.drafter, self.compressed) if drafts and setting.rule.needs_base else None,
        )
        for view in readers.all():
            view.prefill(lambda: None)
        return readers


@dataclass(frozen=True, slots=True)
class Judged:
    """What one call of the rule was given, and what it returned."""

    drafts: Tensor
    drafter: Tensor | None
    base: Tensor | None
    verifier: Tensor
    result: BlockResult

    def logit_error(self, other: Judged) -> float:
        """The largest difference of any logit of two calls with the same drafts."""
        pairs = ((self.drafter, other.drafter), (self.base, other.base), (self.verifier, other.verifier))
        gaps = [(x - y).abs().max() for x, y in pairs if x is not None and y is not None]
        return max(float(gap.nan_to_num(nan=math.inf, posinf=math.inf)) for gap in gaps)  # max() drops NaN


def check_setting(pair: ExactPair, setting: Setting, num_tokens: int, check: Callable[[], None]) -> Checked:
    """Decodes `num_tokens` with the engine, and every block of it again without any cache.

    `check` runs before each block and may raise.
    """
    calls: list[Judged] = []

    def recorded(
        rule: Rule, drafts: Tensor, a: Tensor | None, b: Tensor | None, t: Tensor, **kwargs: Any
    ) -> Any:
        result = verify_block(rule, drafts, a, b, t, **kwargs)
        calls.append(Judged(drafts, a, b, t, result))
        return result

    committed: list[int] = []
    accepted = refused = close_calls = mismatches = 0
    error = 0.0
    with patch.object(loop, "verify_block", recorded):
        stream = blocks(pair.readers(setting), setting.rule, setting.num_draft_tokens, setting.bonus, VOCAB)
        while len(committed) < num_tokens:
            check()
            block = next(stream)
            cached, naive = calls.pop(), naive_block(pair, setting, committed)
            if not torch.equal(cached.drafts, naive.drafts) or not _same(cached.result, naive.result):
                is_close = closest_margin(setting.rule, naive) < CLOSE_CALL
                close_calls, mismatches = close_calls + is_close, mismatches + (not is_close)
            if torch.equal(cached.drafts, naive.drafts):
                error = max(error, cached.logit_error(naive))
            accepted += block.origins.count("accepted")
            refused += block.origins.count("fused")
            committed.extend(block.tokens)
    is_greedy = is_greedy_text(pair, committed) if setting.rule.gate == "strict" else None
    return Checked(setting.name, len(committed), accepted, refused, close_calls, mismatches, error, is_greedy)


@torch.inference_mode()
def naive_block(pair: ExactPair, setting: Setting, committed: Sequence[int]) -> Judged:
    """One block as the paper states it: every view is read from its first token for every token drafted."""
    rule, num_places = setting.rule, setting.num_draft_tokens + (setting.bonus == "rule")
    full, compressed = [*pair.full, *committed], [*pair.compressed, *committed]
    num_places = num_places if setting.num_draft_tokens else 0
    drafts: list[int] = []
    proposed: list[Tensor] = []
    for _ in range(num_places):
        proposed.append(_logits(pair.drafter, [*full, *drafts])[:, -1:])
        drafts.append(int(proposed[-1][0, 0, :VOCAB].argmax()))
    ahead = drafts if setting.bonus == "verifier" else drafts[:-1]
    verifier = _logits(pair.verifier, [*compressed, *ahead])[:, -len(ahead) - 1 :]
    is_strict = rule.gate == "strict"
    drafter = None if is_strict else torch.cat(proposed, dim=1)
    base = None
    if rule.needs_base:
        base = _logits(pair.drafter, [*compressed, *drafts[:-1]])[:, -num_places:]
    ids = torch.tensor([drafts], dtype=torch.long, device=verifier.device)
    result = verify_block(rule, ids, drafter, base, verifier, vocab_size=VOCAB)
    return Judged(ids, drafter, base, verifier, result)


def closest_margin(rule: Rule, judged: Judged) -> float:
    """The smallest margin, in nats, by which anything in a block was decided."""
    num_places = judged.drafts.shape[1]
    t_all = log_probs(judged.verifier, VOCAB)
    margins = [_gap(t_all)]
    a = None if judged.drafter is None else log_probs(judged.drafter, VOCAB)
    b = None if judged.base is None else log_probs(judged.base, VOCAB)
    if a is not None:
        t, parameters = t_all[:, :num_places], RowParameters.of(rule, 1, t_all.device)
        scores = score(rule, parameters, t, a, b)
        chosen = judged.drafts[..., None]
        margins += [_gap(a), _gap(scores)]
        if rule.gate == "slack":
            least = scores.amax(dim=-1) + math.log(rule.slack)
            margins.append(_smallest(scores.gather(-1, chosen)[..., 0] - least))
        elif rule.gate in ("cda", "fixed", "position") and b is not None:
            lenience = torch.zeros_like(t[..., 0]) if rule.gate == "fixed" else divergence(a, b)
            if rule.gate == "position":
                lenience = lenience / torch.arange(1, num_places + 1, device=t.device)
            threshold = math.log(rule.gamma) - lenience + b.gather(-1, chosen)[..., 0]
            margins.append(_smallest(t.gather(-1, chosen)[..., 0] - threshold))
    return min(margins)


def is_greedy_text(pair: ExactPair, tokens: Sequence[int]) -> bool:
    """Whether every token is the verifier's best given those before it, read in a single forward."""
    logits = _logits(pair.verifier, [*pair.compressed, *tokens])[:, len(pair.compressed) - 1 : -1]
    log_p = log_probs(logits, VOCAB)[0]  # [tokens, vocab]
    taken = log_p.gather(-1, torch.tensor(tokens, device=log_p.device)[:, None])[:, 0]
    return bool((log_p.amax(dim=-1) - taken <= CLOSE_CALL).all())


@torch.inference_mode()
def _logits(model: CausalModel, ids: list[int]) -> Tensor:
    logits: Tensor = model.module(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits
    return logits  # [1, n, padded vocab]


def _same(cached: BlockResult, naive: BlockResult) -> bool:
    pairs = ((cached.tokens, naive.tokens), (cached.num_accepted, naive.num_accepted))
    return all(torch.equal(x, y) for x, y in pairs)


def _gap(log_p: Tensor) -> float:
    """The smallest distance between the two best tokens of any row."""
    best = log_p.topk(2, dim=-1).values
    return float((best[..., 0] - best[..., 1]).min())


def _smallest(margin: Tensor) -> float:
    return float(margin.abs().min())
