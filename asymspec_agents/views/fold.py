"""Which form each text of a view takes: the policy applied as a fold over the message list from its start.

Both folds replay every call of the model the message list shows, so that any process computes the same view
from the same list, and a call's view begins like the view of the call before it.

The compressed view. A part (one text of one message) is shown at a tier: verbatim, compressed, head and tail
(or an extract of that size), marker, ellipsis. It only ever moves on.
- A text above `first_sight_tokens` is compressed from the start, wherever it stands: a result, an assistant's
  text, or a user's (whose ends, where requests stand, stay as they are). Shorter user texts stay; every other
  one is compressed when its turn leaves the last `keep_last` turns.
- Above the budget's high water whole old turns move to head and tail, oldest first, then to markers, until
  the view is below the low water; then old user messages, the first (the task) excepted. Where that is not
  enough for the budget itself: the verbatim window, the task, and at last an ellipsis for whatever is longer.
- The system prompt, tool calls and everything that is no text never move, and no budget moves the newest user
  message.

The full view is cut only above its own limit: results oldest first, by as much as needed to get below the low
water, middle out; then the other texts; then markers and ellipses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .replay import Fold, Replay, Tier

__all__ = ["CompressedFold", "FullFold"]


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
            self._move_all(self.turns[turn], Tier.COMPRESSED)
        self._num_old_turns = num_old_turns
        users = self.history.user_messages
        while self._num_old_users + 1 < len(users) and users[self._num_old_users + 1] < end:
            self._num_old_users += 1

    def _squeeze(self, num_turns: int, budget: float) -> None:
        low = budget * self.policy.low_water
        for tier in (Tier.HEAD_AND_TAIL, Tier.MARKER):
            self._move_turns(self._num_old_turns, tier, low)
        for tier in (Tier.HEAD_AND_TAIL, Tier.MARKER):
            self._move_users(tier, low)
        # The verbatim window, the task, and the last tier give way to the budget itself only.
        window = [self.turns[turn] for turn in range(self._num_old_turns, num_turns)]
        task = [self.users[self.history.user_messages[0]]] if self._num_old_users else []
        for groups in (window, task):
            for tier in (Tier.COMPRESSED, Tier.HEAD_AND_TAIL, Tier.MARKER):
                for group in groups:
                    if self.num_tokens <= budget:
                        return
                    self._move_all(group, tier)
        self._move_turns(num_turns, Tier.ELLIPSIS, budget)
        self._move_users(Tier.ELLIPSIS, budget)
        if self.num_tokens > budget:
            for group in task:
                self._move_all(group, Tier.ELLIPSIS)

    def _move_turns(self, end: int, tier: Tier, target: float) -> None:
        while self._moved_turns[tier] < end and self.num_tokens > target:
            self._move_all(self.turns[self._moved_turns[tier]], tier)
            self._moved_turns[tier] += 1

    def _move_users(self, tier: Tier, target: float) -> None:
        while self._moved_users[tier] < self._num_old_users and self.num_tokens > target:
            self._move_all(self.users[self.history.user_messages[self._moved_users[tier]]], tier)
            self._moved_users[tier] += 1

    def _move_all(self, group: Iterable[int], tier: Tier) -> None:
        for index in group:
            self.move(index, tier)


class FullFold(Replay):
    """The fold that makes the full view."""

    _num_old_users = 0

    def run(self, budget: float | None) -> Fold:
        """The forms for the call at hand; if even the shortest exceed the budget, `num_tokens` tells."""
        self._results, self._others = _Group(), _Group()
        first_new = 0
        for end, _ in self.calls():
            self._sort_in(first_new, end)
            if budget is not None and self.num_tokens > budget:
                self._shorten(self._results, Tier.HEAD_AND_TAIL, budget * self.policy.low_water)
                self._shorten(self._others, Tier.HEAD_AND_TAIL, budget)
                for tier in (Tier.MARKER, Tier.ELLIPSIS):
                    self._shorten(self._results, tier, budget)
                    self._shorten(self._others, tier, budget)
            first_new = len(self.shown)
        return self.result()

    def _sort_in(self, first_new: int, end: int) -> None:
        for index in range(first_new, len(self.shown)):
            kind = self.history.parts[index].kind
            if kind == "result":
                self._results.indices.append(index)
            elif kind == "assistant":
                self._others.indices.append(index)
        users = self.history.user_messages
        while self._num_old_users + 1 < len(users) and users[self._num_old_users + 1] < end:
            self._others.indices.extend(self.users[users[self._num_old_users]])
            self._num_old_users += 1

    def _shorten(self, group: _Group, tier: Tier, target: float) -> None:
        """Takes the group's oldest texts to the tier until the prompt is within the target."""
        while group.num_at[tier] < len(group.indices) and self.num_tokens > target:
            index = group.indices[group.num_at[tier]]
            if tier is Tier.HEAD_AND_TAIL:
                excess = math.ceil(self.num_tokens - target)
                wanted = self.shown[index].tokens - excess
                self.cut(index, max(self.policy.headtail_tokens, wanted))
                if wanted > self.policy.headtail_tokens:
                    return  # the rest of it can go the next time
            else:
                self.move(index, tier)
            group.num_at[tier] += 1


class _Group:
    """Parts from the oldest on, and how many of them have reached each tier."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.num_at = dict.fromkeys(Tier, 0)
