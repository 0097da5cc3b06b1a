"""The state of a fold over a conversation: every text's tier and form, moved on and never back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from .policy import ViewPolicy
from .rate import RateState
from .renditions import Original, Renditions, Shown
from .turns import History

__all__ = ["Fold", "Replay", "Tier"]


class Tier(IntEnum):
    """How much of a text a view shows, from all to nothing.

    At EXTRACT the compressor makes a rendition for the room that a budget leaves. At HEAD_AND_TAIL results,
    attachments and assistants' texts show an extract of that size, which keeps more of what was asked for
    (benchmarks/turn_forms.py); users' words, and what has no extract, show both ends.
    """

    VERBATIM = 0
    COMPRESSED = 1
    EXTRACT = 2
    HEAD_AND_TAIL = 3
    MARKER = 4
    ELLIPSIS = 5


_FIXED_FORMS = tuple(tier for tier in Tier if tier not in (Tier.VERBATIM, Tier.EXTRACT))


@dataclass(frozen=True, slots=True)
class Fold:
    """How each text part is shown, in the parts' order, and the tokens of the whole prompt by estimate."""

    shown: tuple[Shown, ...]
    tiers: tuple[Tier, ...]
    num_tokens: int


class Replay:
    """What both folds share: the tier and form of every part met so far, and the prompt's tokens by estimate.

    `originals` are the history's parts in order. `overhead`: tokens of each message besides its texts.
    `num_tokens` starts as the tokens of all that is no message. `rate` says to which share a turn is
    compressed where the policy's own ratio does not hold.
    """

    def __init__(
        self,
        history: History,
        originals: Sequence[Original],
        renditions: Renditions,
        policy: ViewPolicy,
        *,
        overhead: Sequence[int],
        num_tokens: int,
        rate: RateState | None = None,
    ) -> None:
        self.history = history
        self.originals = originals
        self.renditions = renditions
        self.policy = policy
        self.overhead = overhead
        self.num_tokens = num_tokens
        self.rate = rate
        self.shown: list[Shown] = []
        self.tiers: list[Tier] = []
        self.turns: list[list[int]] = [[] for _ in range(history.num_turns)]
        self._latest_turn = -1
        self._rated_turns: list[int] = []  # of each part: its turn, or the one before it
        # Of each user message: the user's words, and what is attached to them.
        self.words: dict[int, list[int]] = {message: [] for message in history.user_messages}
        self.attached: dict[int, list[int]] = {message: [] for message in history.user_messages}

    def calls(self) -> Iterator[tuple[int, int]]:
        """Takes in the messages call by call, verbatim; yields the numbers of messages and turns so far."""
        met = 0
        for end, num_turns in self.history.calls:
            self.num_tokens += sum(self.overhead[met:end])
            self._admit(end)
            yield end, num_turns
            met = end

    def move(self, index: int, tier: Tier) -> None:
        """Moves one part on, through every tier up to the given one (which is not EXTRACT)."""
        for step in _FIXED_FORMS:
            if self.tiers[index] < step <= tier:
                self._show(index, self._form(index, step))
        self.tiers[index] = max(self.tiers[index], tier)

    def compress(self, index: int) -> None:
        """Moves one part to its compressed form; an extract gives way to it where it is shorter."""
        if self.tiers[index] is Tier.EXTRACT:
            self._show(index, self._compressed(index))
        self.move(index, Tier.COMPRESSED)

    def extract(self, index: int, target_tokens: int) -> None:
        """Moves one part to a rendition of about the target, by the compressor."""
        self.tiers[index] = max(self.tiers[index], Tier.EXTRACT)
        self._show(index, self._rendition(index, target_tokens))

    def cut(self, index: int, target_tokens: int) -> None:
        """Moves one part to an excerpt of about the target."""
        self.tiers[index] = max(self.tiers[index], Tier.EXTRACT)
        query = self.history.parts[index].query
        self._show(index, self.renditions.excerpt(self.originals[index], query, target_tokens))

    def result(self) -> Fold:
        """The forms reached."""
        return Fold(tuple(self.shown), tuple(self.tiers), self.num_tokens)

    def _admit(self, end: int) -> None:
        parts = self.history.parts
        while len(self.shown) < len(parts) and parts[len(self.shown)].message < end:
            index = len(self.shown)
            part, original = parts[index], self.originals[index]
            self.shown.append(original)
            self.tiers.append(Tier.VERBATIM)
            # A user's words come after a turn and are compressed no later than in the call they are new in.
            self._latest_turn = self._latest_turn if part.turn is None else part.turn
            self._rated_turns.append(self._latest_turn)
            self.num_tokens += original.tokens
            if part.kind == "user":
                (self.attached if part.header_chars else self.words)[part.message].append(index)
            elif part.turn is not None and part.kind != "call":
                self.turns[part.turn].append(index)

    def _show(self, index: int, form: Shown) -> None:
        """Shows the form if it is shorter; that a compressor failed is kept on record either way."""
        shown = self.shown[index]
        if form.tokens < shown.tokens:
            self.num_tokens -= shown.tokens - form.tokens
            self.shown[index] = replace(form, degraded=True) if shown.degraded else form
        elif form.degraded:
            self.shown[index] = replace(shown, degraded=True)

    def _form(self, index: int, tier: Tier) -> Shown:
        original = self.originals[index]
        if tier is Tier.COMPRESSED:
            return self._compressed(index)
        if tier is Tier.HEAD_AND_TAIL:
            part, target = self.history.parts[index], self.policy.headtail_tokens
            if part.kind == "user" and not part.header_chars:  # what people ask stands at the ends
                return self.renditions.head_and_tail(original, target)
            return self.renditions.short_form(original, part.query, target)
        return self.renditions.marker(original) if tier is Tier.MARKER else self.renditions.ellipsis()

    def _compressed(self, index: int) -> Shown:
        policy, part, original = self.policy, self.history.parts[index], self.originals[index]
        are_words = part.kind == "user" and not part.header_chars
        smallest = policy.first_sight_tokens + 1 if are_words else policy.min_part_tokens
        if original.tokens < smallest or policy.kind_of(part.tool) == "verbatim":
            return self.shown[index]
        ratio, longest = policy.ratio, policy.max_rendition_tokens
        if self.rate is not None:
            ratio = self.rate.ratio(self._rated_turns[index], policy.ratio)
            longest = round(longest * ratio / policy.ratio)
        return self._rendition(index, max(1, min(longest, int(original.tokens * ratio))))

    def _rendition(self, index: int, target_tokens: int) -> Shown:
        part, original = self.history.parts[index], self.originals[index]
        if part.kind == "user" and not part.query:
            return self.renditions.compressed_message(original, target_tokens)
        kind = self.policy.kind_of(part.tool)
        known = None if kind == "verbatim" else kind
        return self.renditions.compressed(original, part.query, target_tokens, known)
