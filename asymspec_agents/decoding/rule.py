"""The decoding rule: which drafts of a block stand, and which token ends the block.

Source: AsymSpec (arXiv 2608.26004), section 3. Notation in this file, all fp32 log-probabilities:
    t   verifier on the compressed view        a   drafter on the full view
    b   drafter on the compressed view         d   the proposed token
Everything here is pure: tensors in, tensors out, no host synchronisation, batched over requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .detail import PositionDetail, describe
from .modes import Rule

__all__ = ["BlockResult", "RowParameters", "accept", "divergence", "log_probs", "score", "verify_block"]

LN2 = math.log(2.0)
MAX_GAP = 200.0  # of log-probabilities; a probability that much smaller is 0 in fp32


@dataclass(frozen=True, slots=True)
class RowParameters:
    """A rule's numbers, one per request of a batch, each of shape [batch]."""

    beta: Tensor
    gamma: Tensor
    slack: Tensor
    scale: Tensor
    plausibility: Tensor

    @classmethod
    def of(cls, rule: Rule, batch: int, device: torch.device) -> RowParameters:
        """The same numbers, those of `rule`, for every row."""

        def row(value: float) -> Tensor:
            return torch.full((batch,), value, dtype=torch.float32, device=device)

        scale = 1.0 if rule.scale is None else rule.scale
        return cls(row(rule.beta), row(rule.gamma), row(rule.slack), row(scale), row(rule.plausibility))


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a block emits.

    tokens: [batch, T] int64, -1 from `num_tokens` on. num_tokens = num_accepted + num_fused + num_bonus, each
    [batch]. divergence: [batch, P] JSD(a, b) in nats, zero in padding and where a or b was not given.
    num_judged: [batch], positions up to and with the first refusal. detail: where it was asked for.
    """

    tokens: Tensor
    num_tokens: Tensor
    num_accepted: Tensor
    num_fused: Tensor
    num_bonus: Tensor
    divergence: Tensor
    num_judged: Tensor
    detail: PositionDetail | None = None


def log_probs(logits: Tensor, vocab_size: int | None = None) -> Tensor:
    """fp32 log-softmax over the first `vocab_size` ids, so padding ids have no probability.

    A row must have at least one finite logit.
    """
    return torch.log_softmax(logits[..., :vocab_size].float(), dim=-1)  # [..., vocab]


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon divergence of two log-distributions [..., vocab] in nats, clamped to [0, ln 2]: [...].

    With m the mean of both and g = log b - log a: log a - log m = ln 2 - log(1 + e^g), and for b with -g.
    Both are exactly 0 where a == b. One logarithm serves both: log(1 + e^g) = max(g, 0) + log(1 + e^-|g|).
    """
    gap = torch.where(a == b, 0.0, b - a).clamp(-MAX_GAP, MAX_GAP)  # also covers -inf on either side
    near = LN2 - gap.abs().neg().exp().log1p()
    from_a = a.exp() * (near - gap.clamp(min=0.0))
    from_b = b.exp() * (near + gap.clamp(max=0.0))
    return (0.5 * (from_a + from_b).sum(dim=-1)).clamp(0.0, LN2)


def score(rule: Rule, parameters: RowParameters, t: Tensor, a: Tensor | None, b: Tensor | None) -> Tensor:
    """s = t + beta·Δ for [batch, positions, vocab] inputs; -inf where a token must not be emitted.

    Never eligible: what the verifier's mask forbids (t = -inf); under delta `full` and `scd` also tokens
    whose Δ is infinite; with plausibility, tokens below α·max p_t. A position left without any token falls
    back to t of the plausible ones.
    """
    least = t.amax(dim=-1, keepdim=True) + parameters.plausibility.log()[:, None, None]
    plausible = (t > -math.inf) & (t >= least - _rounding(least))
    eligible = plausible
    beta = parameters.beta[:, None, None]
    if rule.delta == "context":
        a, b = _given(a, "drafter"), _given(b, "base")
        finite = (a > -math.inf) & (b > -math.inf)
        delta = torch.where(finite, a - b, 0.0)
    elif rule.delta == "full":
        delta = _given(a, "drafter")
        eligible = plausible & (delta > -math.inf)
    elif rule.delta == "scd":
        b = _given(b, "base")
        eligible = plausible & (b > -math.inf)
        delta = t - b
    else:
        delta = torch.zeros_like(t)
    if rule.scale is not None:
        views_differ = divergence(_given(a, "drafter"), _given(b, "base")) / LN2  # [batch, positions]
        beta = beta * (parameters.scale[:, None] * views_differ).clamp(max=1.0)[:, :, None]
    scored = torch.where(eligible, t + beta * delta, -math.inf)
    fallback = torch.where(plausible, t, -math.inf)
    return torch.where(eligible.any(dim=-1, keepdim=True), scored, fallback)


def accept(
    rule: Rule, parameters: RowParameters, drafts: Tensor, t: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Whether the gate lets each draft stand, and JSD(a, b): two tensors [batch, positions].

    Each position is judged by itself; the caller stops at the first refusal. A draft outside the vocabulary
    is refused. The divergence is zero where a or b is not given.
    """
    chosen = drafts.clamp(0, t.shape[-1] - 1)[..., None]  # [batch, positions, 1]
    t_draft = t.gather(-1, chosen)[..., 0]
    jsd = torch.zeros_like(t_draft) if a is None or b is None else divergence(a, b)
    if rule.gate == "strict":
        return drafts == t.argmax(dim=-1), jsd
    if rule.gate in ("fused_greedy", "slack"):
        scores = score(rule, parameters, t, a, b)
        if rule.gate == "fused_greedy":
            accepted = drafts == scores.argmax(dim=-1)
        else:
            least = scores.amax(dim=-1) + parameters.slack.log()[:, None]
            accepted = scores.gather(-1, chosen)[..., 0] >= least - _rounding(least)
    else:
        b_draft = _given(b, "base").gather(-1, chosen)[..., 0]
        if rule.gate != "fixed":
            _given(a, "drafter")  # without it the divergence would be zero, which is gate `fixed`
        # p_t(d) > gamma·exp(-D)·p_b(d), in log space: probabilities of 1e-10 occur
        threshold = _log_gamma(rule, parameters, jsd) + b_draft
        accepted = t_draft > threshold + _rounding(t_draft)
    if rule.agreement:
        accepted |= _given(a, "drafter").argmax(dim=-1) == t.argmax(dim=-1)
    return accepted & (t_draft > -math.inf) & (drafts == chosen[..., 0]), jsd


def _log_gamma(rule: Rule, parameters: RowParameters, jsd: Tensor) -> Tensor:
    """log of gamma_eff [batch, positions], the share of p_b that p_t must exceed, for gates that have one."""
    log_gamma = parameters.gamma.log()[:, None].expand(jsd.shape)
    if rule.gate == "fixed":
        return log_gamma
    if rule.gate == "position":
        jsd = jsd / torch.arange(1, jsd.shape[1] + 1, device=jsd.device)
    return log_gamma - jsd


def verify_block(
    rule: Rule,
    drafts: Tensor,
    drafter: Tensor | None,
    base: Tensor | None,
    verifier: Tensor,
    *,
    num_drafts: Tensor | None = None,
    vocab_size: int | None = None,
    parameters: RowParameters | None = None,
    num_alternatives: int | None = None,
) -> BlockResult:
    """The tokens one block emits.

    Shapes: drafts [batch, P] int64; drafter and base logits [batch, P, vocab], None where the rule needs none
    (`Rule.needs_drafter`, `Rule.needs_base`); verifier logits [batch, T, vocab] with T = P, or T = P + 1
    where a block of P accepted drafts ends with the verifier's own next token (bonus "verifier"; P may be 0).
    `num_drafts` [batch] limits a row to its first drafts (the rest is padding). Logits may be of any dtype
    and of padded vocabularies; ids from `vocab_size` on never count. With `num_alternatives` the result says
    what was read at each position, and that many of each reader's best tokens. Raises ValueError for a
    missing distribution and for any other T.
    """
    batch, num_places = drafts.shape
    if verifier.shape[1] not in (num_places, num_places + 1):
        raise ValueError(
            f"{num_places} drafts need as many verifier positions or one more, not {verifier.shape[1]}"
        )
    sizes = [logits.shape[-1] for logits in (drafter, base, verifier) if logits is not None]
    vocab_size = min(sizes if vocab_size is None else [*sizes, vocab_size])
    if num_places == 0:
        drafter = base = verifier[:, :0]  # nothing is judged, so nothing is needed
    t = log_probs(verifier, vocab_size)
    a = None if drafter is None else log_probs(drafter, vocab_size)
    b = None if base is None else log_probs(base, vocab_size)
    if parameters is None:
        parameters = RowParameters.of(rule, batch, t.device)
    if num_drafts is None:
        num_drafts = torch.full((batch,), num_places, dtype=torch.int64, device=t.device)

    place = torch.arange(num_places, device=t.device)
    stands, jsd = accept(rule, parameters, drafts, t[:, :num_places], a, b)
    stands = stands & (place < num_drafts[:, None])
    num_accepted = stands.long().cumprod(dim=1).sum(dim=1)  # [batch]
    is_refused = num_accepted < num_drafts
    has_bonus = ~is_refused & (t.shape[1] > num_places)

    # The block's last token: fused at the first refusal, else the verifier's own; one row per request.
    last_row = num_accepted.clamp(max=t.shape[1] - 1)[:, None, None]
    t_last = _row(t, last_row)
    last = t_last.argmax(dim=-1)[:, 0]  # [batch]
    if rule.gate != "strict" and num_places:
        draft_row = num_accepted.clamp(max=num_places - 1)[:, None, None]
        a_last = None if a is None else _row(a, draft_row)
        b_last = None if b is None else _row(b, draft_row)
        fused = score(rule, parameters, t_last, a_last, b_last).argmax(dim=-1)[:, 0]
        last = torch.where(is_refused, fused, last)

    slot = torch.arange(t.shape[1], device=t.device)  # [T]
    drafted = torch.nn.functional.pad(drafts, (0, t.shape[1] - num_places), value=-1)
    tokens = torch.where(slot < num_accepted[:, None], drafted, -1)
    ends_here = (slot == num_accepted[:, None]) & (is_refused | has_bonus)[:, None]
    tokens = torch.where(ends_here, last[:, None], tokens)
    num_fused, num_bonus = is_refused.long(), has_bonus.long()
    detail = None
    if num_alternatives is not None:
        has_gamma = rule.gate in ("cda", "fixed", "position")
        log_gamma = _log_gamma(rule, parameters, jsd) if has_gamma else None
        detail = describe(tokens, drafts, t, a, b, log_gamma, num_alternatives)
    return BlockResult(
        tokens=tokens,
        num_tokens=num_accepted + num_fused + num_bonus,
        num_accepted=num_accepted,
        num_fused=num_fused,
        num_bonus=num_bonus,
        divergence=torch.where(place < num_drafts[:, None], jsd, 0.0),
        num_judged=num_accepted + num_fused,
        detail=detail,
    )


def _rounding(x: Tensor) -> Tensor:
    """How far fp32 may have moved a log-probability near x: a threshold met within that is met exactly."""
    return 1e-6 * (1.0 + x.abs())


def _row(x: Tensor, index: Tensor) -> Tensor:
    """One position of each request: [batch, positions, vocab] and [batch, 1, 1] to [batch, 1, vocab]."""
    return x.gather(1, index.expand(-1, 1, x.shape[-1]))


def _given(logits: Tensor | None, role: str) -> Tensor:
    if logits is None:
        raise ValueError(f"this rule needs the {role} logits")
    return logits
