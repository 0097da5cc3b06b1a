"""Which form each text of a view takes: the policy applied as a fold over the message list from its start.

Both folds replay every call of the model the message list shows, so that any process computes the same view
from the same list, and a call's view begins like the view of the call before it.

The compressed view. A part (one text of one message) is shown at a tier: verbatim, compressed, an extract for
the room there is, head and tail (or an extract of that size), marker, ellipsis. It only ever moves on.
- A text above `first_sight_tokens` is compressed from the start, wherever it stands: a result, an assistant's
  text, or a user's (whose ends, where requests stand, stay as they are). Shorter user texts stay; every other
  one is compressed when its turn leaves the last `keep_last` turns.
- Above the budget's high water old turns move to head and tail, oldest first, until the view is below the low
  water; the last one keeps an extract for what is left of that room. Then old user messages, the first (the
  task) excepted; then both to markers. Where that is not enough for the budget itself: the verbatim window,
  attachments and the task shrink to the room there is, and go on in that order; at last an ellipsis stands
  for whatever is longer.
- The system prompt, tool calls and everything that is no text never move, and no budget moves the words of
  the newest user message, but where they were compressed at first sight: these shrink further, ends kept.

The full view is cut only above its own limit: results oldest first, then attachments, then the other texts,
each to an excerpt for the room there is; then markers and ellipses. What was sent before gives way down to
the low water, so that it then stays as it is for some calls; what is new in a call to the high water only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .extract_share import largest_share
from .replay import Fold, Replay, Tier

__all__ = ["CompressedFold", "FullFold"]

MAX_CUTS = 3  # of one text for one target, which an excerpt may miss by a few tokens


class CompressedFold(Replay):
    """The fold that makes the compressed view."""

    _num_old_turns = 0
    _num_old_users = 0

    def run(self, budget: float | None) -> Fold:
        """The forms for the call at hand; if even the shortest exceed the budget, `num_tokens` tells."""
        # How many of the oldest turns and user messages have reached each tier. The first user message, the
        # task, is moved apart from the others.
        self._moved_turns = dict.fromkeys(Tier, 0)
        self._moved_users = dict.fromkeys(Tier, 1)
        self._whole_tokens: dict[int, int] = {}  # of parts shown as extracts: what they had before
        first_new = 0
        for end, num_turns in self.calls():
            self._compress_new(first_new)
            self._compress_old(end, num_turns)
            if budget is not None and self.num_tokens > budget * self.policy.high_water:
                self._squeeze(num_turns, budget)
            first_new = len(self.shown)
        return self.result()

    def _compress_new(self, first_new: int) -> None:
        """First sight: what is long is compressed at once."""
        for index in range(first_new, len(self.shown)):
            is_long = self.shown[index].tokens > self.policy.first_sight_tokens
            if is_long and self.history.parts[index].kind in ("user", "result", "assistant"):
                self.move(index, Tier.COMPRESSED)

    def _compress_old(self, end: int, num_turns: int) -> None:
        """Turns that left the verbatim window; counts user messages that are no longer the newest."""
        num_old_turns = max(self._num_old_turns, num_turns - self.policy.keep_last)
        for turn in range(self._num_old_turns, num_old_turns):
            for index in self.turns[turn]:
                self.compress(index)
        self._num_old_turns = num_old_turns
        users = self.history.user_messages
        while self._num_old_users + 1 < len(users) and users[self._num_old_users + 1] < end:
            self._num_old_users += 1

    def _squeeze(self, num_turns: int, budget: float) -> None:
        low = budget * self.policy.low_water
        self._shorten_turns(low)
        self._move_turns(self._num_old_turns, Tier.MARKER, low)
        self._shorten_users(low)
        self._move_users(Tier.MARKER, low)
        # The verbatim window, attachments, the task and the last tier give way to the budget itself only.
        window = [self.turns[turn] for turn in range(self._num_old_turns, num_turns)]
        attached, task, newest = self._kept_users()
        for group in (*window, *attached, *task):
            self._shrink(group, budget)
        self._shrink_newest(newest, budget)
        for group in (*window, *attached, *task):
            if self.num_tokens > budget:
                self._move_all(group, Tier.MARKER)
        self._move_turns(num_turns, Tier.ELLIPSIS, budget)
        self._move_users(Tier.ELLIPSIS, budget)
        for group in (*attached, *task):
            if self.num_tokens > budget:
                self._move_all(group, Tier.ELLIPSIS)

    def _kept_users(self) -> tuple[list[list[int]], list[list[int]], list[int]]:
        """Attachments of the task and the newest message, the task's words, the newest message's words."""
        users = self.history.user_messages
        if not users:
            return [], [], []
        first, newest = users[0], users[self._num_old_users]
        attached = [self.attached[message] for message in dict.fromkeys((first, newest))]
        return attached, [self.words[first]] if newest != first else [], self.words[newest]

    def _shrink_newest(self, words: Sequence[int], target: float) -> None:
        """Of the newest message, what was compressed at first sight: the rest is beyond reach."""
        within = [index for index in words if self.shown[index].compressor is not None]
        self._extract(within, target)
        for index in within:
            if self.num_tokens > target:
                self.extract(index, self.policy.headtail_tokens)

    def _shorten_turns(self, target: float) -> None:
        """Takes old turns to head and tail; the last one keeps what fits, its rest can go the next time."""
        moved = self._moved_turns
        while moved[Tier.HEAD_AND_TAIL] < self._num_old_turns and self.num_tokens > target:
            if not self._shrink(self.turns[moved[Tier.HEAD_AND_TAIL]], target):
                moved[Tier.HEAD_AND_TAIL] += 1

    def _shorten_users(self, target: float) -> None:
        moved = self._moved_users
        while moved[Tier.HEAD_AND_TAIL] < self._num_old_users and self.num_tokens > target:
            if not self._shrink(self._texts_of(moved[Tier.HEAD_AND_TAIL]), target):
                moved[Tier.HEAD_AND_TAIL] += 1

    def _move_turns(self, end: int, tier: Tier, target: float) -> None:
        while self._moved_turns[tier] < end and self.num_tokens > target:
            self._move_all(self.turns[self._moved_turns[tier]], tier)
            self._moved_turns[tier] += 1

    def _move_users(self, tier: Tier, target: float) -> None:
        while self._moved_users[tier] < self._num_old_users and self.num_tokens > target:
            self._move_all(self._texts_of(self._moved_users[tier]), tier)
            self._moved_users[tier] += 1

    def _texts_of(self, user: int) -> list[int]:
        message = self.history.user_messages[user]
        return [*self.attached[message], *self.words[message]]

    def _move_all(self, group: Iterable[int], tier: Tier) -> None:
        for index in group:
            self.move(index, tier)

    def _shrink(self, group: Sequence[int], target: float) -> bool:
        """Shortens texts to the room there is; False where they went to head and tail."""
        self._extract(group, target)
        if self.num_tokens > target:
            self._move_all(group, Tier.HEAD_AND_TAIL)
            return False
        return True

    def _extract(self, group: Sequence[int], target: float) -> None:
        """Shows extracts of the texts, each the same share of what it had, as long as that brings them near
        the target."""
        smallest = self.policy.headtail_tokens
        open_ = [index for index in group if self.tiers[index] <= Tier.EXTRACT]
        for index in open_:
            self._whole_tokens.setdefault(index, self.shown[index].tokens)
        whole = [self._whole_tokens[index] for index in open_]
        share = 1.0
        while self.num_tokens > target:
            shown = [self.shown[index].tokens for index in open_]
            wanted = sum(shown) - math.ceil(self.num_tokens - target)
            found = largest_share(whole, shown, wanted, smallest, below=share)
            if found is None:
                return
            share, before = found, self.num_tokens
            for index, tokens in zip(open_, whole, strict=True):
                if max(smallest, tokens * share) < self.shown[index].tokens:
                    self.extract(index, max(smallest, round(tokens * share)))
            if self.num_tokens == before:  # a compressor that cannot make them shorter
                return


class FullFold(Replay):
    """The fold that makes the full view."""

    _num_old_users = 0

    def run(self, budget: float | None) -> Fold:
        """The forms for the call at hand; if even the shortest exceed the budget, `num_tokens` tells."""
        self._groups = results, attached, others = _Group(), _Group(), _Group()
        first_new = 0
        for end, _ in self.calls():
            self._sort_in(first_new, end)
            if budget is not None and self.num_tokens > budget:
                low, high = budget * self.policy.low_water, budget * self.policy.high_water
                for group in (results, attached):
                    self._cut_group(group, low, first_new)
                    self._cut_group(group, high, len(self.shown))
                self._cut_group(others, budget, len(self.shown))
                for tier in (Tier.MARKER, Tier.ELLIPSIS):
                    for group in self._groups:
                        self._move_group(group, tier, budget)
            first_new = len(self.shown)
        return self.result()

    def _sort_in(self, first_new: int, end: int) -> None:
        results, attached, others = self._groups
        for index in range(first_new, len(self.shown)):
            part = self.history.parts[index]
            if part.kind == "result":
                results.indices.append(index)
            elif part.kind == "assistant":
                others.indices.append(index)
            elif part.kind == "user" and part.header_chars:
                attached.indices.append(index)
        users = self.history.user_messages
        while self._num_old_users + 1 < len(users) and users[self._num_old_users + 1] < end:
            others.indices.extend(self.words[users[self._num_old_users]])
            self._num_old_users += 1

    def _cut_group(self, group: _Group, target: float, end: int) -> None:
        """Cuts the group's oldest texts, of those before `end`, until the prompt is within the target."""
        tier, smallest = Tier.HEAD_AND_TAIL, self.policy.headtail_tokens
        while group.num_at[tier] < len(group.indices) and self.num_tokens > target:
            index = group.indices[group.num_at[tier]]
            if index >= end:
                return
            for _ in range(MAX_CUTS):
                wanted = self.shown[index].tokens - math.ceil(self.num_tokens - target)
                self.cut(index, max(smallest, wanted))
                if self.num_tokens <= target:
                    return  # the rest of it can go the next time
                if wanted <= smallest:
                    break
            self.move(index, tier)
            group.num_at[tier] += 1

    def _move_group(self, group: _Group, tier: Tier, target: float) -> None:
        while group.num_at[tier] < len(group.indices) and self.num_tokens > target:
            self.move(group.indices[group.num_at[tier]], tier)
            group.num_at[tier] += 1


class _Group:
    """Parts from the oldest on, and how many of them have reached each tier."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.num_at = dict.fromkeys(Tier, 0)
