"""Fits a view to its limit: the fold by estimate, checked by an exact count of the prompt near the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import ContextOverflowError
from ..messages import Message, ToolSpec
from ..protocol import Edit, apply_edits
from .fold import CompressedFold, FullFold
from .policy import ViewPolicy
from .prompt_size import PROMPT_TOKENS, message_overhead_tokens, tools_tokens
from .rate import RateState
from .renditions import Original, Renditions
from .replay import Fold
from .turns import History, read_history

__all__ = ["Conversation", "Fitted", "Fitter", "PromptCounter"]

View = Literal["full", "compressed"]
PromptCounter = Callable[[Sequence[Message], Sequence[ToolSpec]], int]

MAX_EXACT_COUNTS = 4
# A text has no more tokens than bytes; one that is not ASCII may be normalized to twice as many first.
RARE_BYTES = 2
OVERHEAD_BYTES = 6  # of an estimated token of template, calls and tools
# Shares of a limit a view is folded for, by how far the estimate falls short of an exact count. Few and far
# between, so that the calls of a conversation take the same one and their views keep a common prefix.
BUDGET_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A call's messages and tools with all that both folds need to know of them."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    history: History
    originals: tuple[Original, ...]
    overhead: tuple[int, ...]

    def shown(self, fold: Fold) -> tuple[Message, ...]:
        """The messages as the fold shows them."""
        return apply_edits(
            self.messages,
            [
                Edit(message=part.message, part=part.part, text=shown.text)
                for part, shown in zip(self.history.parts, fold.shown, strict=True)
                if shown.compressor is not None
            ],
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A view within its limit, and the tokens of its whole prompt."""

    fold: Fold
    num_tokens: int
    is_exact: bool


class Fitter:
    """Reads conversations and fits their views; raises ContextOverflowError where a limit cannot be met."""

    def __init__(
        self, policy: ViewPolicy, renditions: Renditions, prompt_counter: PromptCounter | None
    ) -> None:
        self._policy = policy
        self._renditions = renditions
        self._prompt_counter = prompt_counter

    def read(
        self,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...],
        task: str | None,
        headers: Mapping[tuple[int, int], int] | None = None,
    ) -> Conversation:
        """The messages with what the folds need to know; `task` and `headers`: see `read_history`."""
        policy = self._policy
        history = read_history(messages, policy.observation_markers, policy.call_markers, task, headers)
        return Conversation(
            messages,
            tools,
            history,
            tuple(self._renditions.original(part.text, part.header_chars) for part in history.parts),
            tuple(message_overhead_tokens(message, self._renditions.count) for message in messages),
        )

    def fit(self, view: View, conversation: Conversation, rate: RateState | None = None) -> Fitted:
        """The view within its limit, checked by an exact count where the estimate comes near it."""
        policy, tools = self._policy, conversation.tools
        folding = CompressedFold if view == "compressed" else FullFold
        limit = policy.max_verifier_tokens if view == "compressed" else policy.max_drafter_tokens
        may_cut = view == "compressed" or policy.on_drafter_overflow == "truncate"
        fixed_tokens = PROMPT_TOKENS + tools_tokens(tools, self._renditions.count)

        def fitted(share: float) -> Fitted:
            fold = folding(
                conversation.history,
                conversation.originals,
                self._renditions,
                policy,
                overhead=conversation.overhead,
                num_tokens=fixed_tokens,
                rate=rate,
            ).run(limit * share if limit is not None and may_cut else None)
            return Fitted(fold, fold.num_tokens, is_exact=False)

        current = fitted(1.0)
        if limit is not None and self._may_exceed(current, limit):
            current = self._check(view, current, limit, fitted, conversation)
        if limit is not None and current.num_tokens > limit:
            advice = self._advice(view, conversation, current.fold)
            raise ContextOverflowError(view, current.num_tokens, limit, advice)
        return current

    def _advice(self, view: View, conversation: Conversation, fold: Fold) -> str:
        """What takes the room, and what can be done about it."""
        policy, history = self._policy, conversation.history
        if view == "full" and policy.on_drafter_overflow == "raise":
            return 'on_drafter_overflow="truncate" cuts tool outputs, attachments and older messages'
        newest = history.user_messages[-1:]
        sizes = {"system prompt": 0, "newest user message": 0, "other texts": 0}
        for part, shown in zip(history.parts, fold.shown, strict=True):
            is_newest = part.kind == "user" and part.message in newest
            name = "newest user message" if is_newest else "system prompt"
            sizes[name if is_newest or part.kind == "system" else "other texts"] += shown.tokens
        sizes["tools"] = tools_tokens(conversation.tools, self._renditions.count)
        sizes["tool calls and template"] = sum(conversation.overhead) + PROMPT_TOKENS
        by_size = sorted(sizes.items(), key=lambda item: -item[1])
        left = ", ".join(f"{name} {tokens:,}" for name, tokens in by_size if tokens)
        setting = "max_verifier_tokens" if view == "compressed" else "max_drafter_tokens"
        return (
            "tool outputs, attachments and older messages are as short as they can be; what is left, in "
            f"tokens by estimate: {left}; shorten these or raise {setting} (what a user pastes can be "
            "shortened where it is sent as an attachment)"
        )

    def _may_exceed(self, fitted: Fitted, limit: int) -> bool:
        """Whether the prompt could be over the limit, however wrong the estimate is."""
        overhead = fitted.num_tokens - sum(shown.tokens for shown in fitted.fold.shown)
        return (
            overhead * OVERHEAD_BYTES + sum(_most_tokens(shown.text) for shown in fitted.fold.shown) > limit
        )

    def _check(
        self,
        view: View,
        current: Fitted,
        limit: int,
        fitted: Callable[[float], Fitted],
        conversation: Conversation,
    ) -> Fitted:
        """The view with its exact tokens, folded for the share of the limit that makes up for the estimate.

        The share follows from how far the estimate is off, not from whether the limit is exceeded just now:
        it changes as little as that does, and no turn goes back to a longer form in between.
        """
        exact = self._exact_tokens(conversation, current)
        if exact is None:
            return current
        is_whole = all(shown.compressor is None for shown in current.fold.shown)
        if view == "full" and is_whole and exact <= limit:
            return replace(current, num_tokens=exact, is_exact=True)  # and so it was in every call before
        num_counts = 1
        share = _share_within(current.num_tokens / max(exact, 1))
        while True:
            folded = fitted(share) if share < 1 else current
            if folded.fold.shown != current.fold.shown:
                exact = self._exact_tokens(conversation, folded)
                if exact is None:
                    return folded
                num_counts += 1
            current = replace(folded, num_tokens=exact, is_exact=True)
            if exact <= limit or share == 0:
                return current
            is_last = num_counts == MAX_EXACT_COUNTS - 1
            share = 0.0 if is_last else _share_within(min(share * limit / exact, share - 0.01))

    def _exact_tokens(self, conversation: Conversation, fitted: Fitted) -> int | None:
        """The whole prompt by its chat template; None without a counter, or where the template fails."""
        if self._prompt_counter is None:
            return None
        try:
            counted = self._prompt_counter(conversation.shown(fitted.fold), conversation.tools)
        except Exception:  # templates refuse role orders they do not know
            return None
        is_count = isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0
        return counted if is_count else None


def _share_within(wanted: float) -> float:
    """The largest share not above the one wanted; 0, all that can go goes, where there is none."""
    return next((share for share in BUDGET_SHARES if share <= wanted), 0.0)


def _most_tokens(text: str) -> int:
    return len(text) if text.isascii() else RARE_BYTES * len(text.encode("utf-8", "surrogatepass"))
