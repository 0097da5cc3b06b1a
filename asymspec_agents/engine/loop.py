"""The block loop: draft, score, verify, commit. Source: AsymSpec (arXiv 2608.26004), algorithm 1.

All views grow by the same committed tokens. Plain decoding is the same loop without a drafter: a block of no
drafts that ends with the verifier's own token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..decoding.detail import describe
from ..decoding.modes import BonusMode, Rule
from ..decoding.rule import BlockResult, log_probs, verify_block
from .grammar import Matcher
from .positions import Position, positions
from .sampling import Sampler
from .view import View

__all__ = ["Block", "Readers", "TokenOrigin", "blocks", "next_block"]

TokenOrigin = Literal["accepted", "fused", "bonus"]


@dataclass(frozen=True, slots=True)
class Readers:
    """Who reads what: the verifier's view, the drafting view, and the base pass over the compressed view.

    `drafter` None: plain decoding. `base` None: the rule needs none, or the drafting view is the base view.
    """

    verifier: View
    drafter: View | None = None
    base: View | None = None

    def all(self) -> tuple[View, ...]:
        """Every view that keeps a cache."""
        return tuple(view for view in (self.verifier, self.drafter, self.base) if view is not None)


@dataclass(frozen=True, slots=True)
class Block:
    """One block's outcome: tokens with their origins, proposals made, JSD of the judged positions.

    `complete_at`: how many of the tokens complete the answer's grammar; None where it goes on, or has none.
    `positions`: what the models thought of each token, where it was asked for.
    """

    tokens: tuple[int, ...]
    origins: tuple[TokenOrigin, ...]
    num_drafted: int
    divergence: tuple[float, ...]
    complete_at: int | None = None
    positions: tuple[Position, ...] | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafts [1, places], and each drafting view's logits at their places [1, places, vocab]."""

    drafts: Tensor
    logits: tuple[Tensor, ...]


def blocks(
    readers: Readers,
    rule: Rule,
    num_draft_tokens: int,
    bonus: BonusMode,
    vocab_size: int,
    *,
    matcher: Matcher | None = None,
    sampler: Sampler | None = None,
    num_alternatives: int | None = None,
) -> Iterator[Block]:
    """Blocks without end from prefilled views; every block commits at least one token to all of them.

    The caller stops the iteration and drops what it does not want (tokens behind EOS, say). `matcher` keeps
    the verifier to a grammar; `sampler` draws the tokens of plain decoding, which is greedy without. With
    `num_alternatives` each block says what was read at its positions; without it nothing more is computed.
    """
    committed: list[int] = []
    while True:
        block = next_block(
            readers,
            committed,
            rule,
            num_draft_tokens,
            bonus,
            vocab_size,
            matcher=matcher,
            sampler=sampler,
            num_alternatives=num_alternatives,
        )
        if matcher is not None:
            block = replace(block, complete_at=matcher.advance(block.tokens))
        committed.extend(block.tokens)
        for view in readers.all():
            view.rewind(committed)
        yield block


@torch.inference_mode()
def next_block(
    readers: Readers,
    committed: list[int],
    rule: Rule,
    num_draft_tokens: int,
    bonus: BonusMode,
    vocab_size: int,
    *,
    matcher: Matcher | None = None,
    sampler: Sampler | None = None,
    num_alternatives: int | None = None,
) -> Block:
    """One block on top of `committed`; leaves the views ahead of it, to be rewound by the caller."""
    if readers.drafter is None:
        logits = readers.verifier.advance(committed, [], 1)
        if matcher is not None:
            logits = matcher.mask(logits, [])
        if sampler is not None:
            return _sampled(sampler.draw(logits), logits, vocab_size, num_alternatives)
        drafts = torch.empty((1, 0), dtype=torch.long, device=logits.device)
        result = verify_block(
            Rule("strict", "none"),
            drafts,
            None,
            None,
            logits,
            vocab_size=vocab_size,
            num_alternatives=num_alternatives,
        )
        return _block(result, drafts)

    num_places = num_draft_tokens + (bonus == "rule")  # d_{K+1} is judged like any other draft
    base = readers.base if rule.needs_base else None
    is_packed = base is not None and readers.drafter.model.can_pack
    drafting = [readers.drafter, base] if base is not None and is_packed else [readers.drafter]
    proposal = draft(drafting, committed, num_places, vocab_size)
    behind_last = proposal.drafts[:, : num_places - 1]  # what must be read to score every place

    base_logits = proposal.logits[-1] if rule.needs_base else None  # of the only view where both are one
    if base is not None and not is_packed:
        base_logits = base.advance(committed, behind_last, num_places)

    ahead = proposal.drafts if bonus == "verifier" else behind_last
    verifier_logits = readers.verifier.advance(committed, ahead, ahead.shape[1] + 1)
    if matcher is not None:  # the drafter's opinion is its own: only what the verifier may emit is restricted
        verifier_logits = matcher.mask(verifier_logits, proposal.drafts[0].tolist())
    drafter_logits = None if rule.gate == "strict" else proposal.logits[0]
    result = verify_block(
        rule,
        proposal.drafts,
        drafter_logits,
        base_logits,
        verifier_logits,
        vocab_size=vocab_size,
        num_alternatives=num_alternatives,
    )
    return _block(result, proposal.drafts)


def draft(views: Sequence[View], committed: list[int], num_places: int, vocab_size: int) -> Proposal:
    """Greedy proposals of the first view, one forward each; ids stay on the device throughout.

    Further views read along, so that the places are scored for them at once.
    """
    logits: list[list[Tensor]] = []
    drafts: list[Tensor] = []
    pieces = [view.unread(committed) for view in views]
    while len(drafts) < num_places:
        logits.append(View.read_each(views, pieces))
        drafts.append(logits[-1][0][..., :vocab_size].argmax(dim=-1))  # [1, 1]
        pieces = [view.native(drafts[-1]) for view in views]
    by_view = tuple(torch.cat(rows, dim=1) for rows in zip(*logits, strict=True))
    return Proposal(torch.cat(drafts, dim=1), by_view)


def _sampled(token: int, logits: Tensor, vocab_size: int, num_alternatives: int | None) -> Block:
    """The block of a token that was drawn; its detail is of the verifier's distribution before sampling."""
    if num_alternatives is None:
        return Block((token,), ("bonus",), 0, ())
    tokens = torch.tensor([[token]], device=logits.device)
    drafts = tokens[:, :0]
    detail = describe(tokens, drafts, log_probs(logits, vocab_size), None, None, None, num_alternatives)
    return Block((token,), ("bonus",), 0, (), positions=positions(detail, [token], drafts))


def _block(result: BlockResult, drafts: Tensor) -> Block:
    """The result on the host: the block's only synchronisation with the device, unless it has detail."""
    num_tokens = int(result.num_tokens[0])
    counts: tuple[tuple[TokenOrigin, int], ...] = (
        ("accepted", int(result.num_accepted[0])),
        ("fused", int(result.num_fused[0])),
        ("bonus", int(result.num_bonus[0])),
    )
    tokens = result.tokens[0, :num_tokens].tolist()
    return Block(
        tokens=tuple(tokens),
        origins=tuple(origin for origin, count in counts for _ in range(count)),
        num_drafted=drafts.shape[1],
        divergence=tuple(result.divergence[0, : int(result.num_judged[0])].tolist()),
        positions=None if result.detail is None else positions(result.detail, tokens, drafts),
    )
