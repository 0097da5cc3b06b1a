"""How the answers to one call from both views and from the full view alone differ; counts, never a text."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, dataclass
from typing import Any

from ..backends.answer import ChatResponse
from ..messages import ToolCall

__all__ = ["Comparison", "ShadowSummary", "compared"]

MAX_WORDS = 500  # of each answer that similarity looks at; it takes quadratic time


@dataclass(frozen=True, slots=True)
class Comparison:
    """One call answered twice: the client's answer, and the full view's (`full_…`).

    `is_equal`: the same text and the same calls, arguments compared as values. `similarity`: share of equal
    words in their order, from 0 to 1. Tokens are None where an answer does not tell them.
    """

    is_equal: bool
    similarity: float
    prompt_tokens: int | None
    full_prompt_tokens: int | None
    completion_tokens: int | None
    full_completion_tokens: int | None
    elapsed_s: float
    full_elapsed_s: float

    def plain(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)


class ShadowSummary:
    """Comparisons added up."""

    def __init__(self) -> None:
        self.num_left_out = 0
        self.num_failed = 0
        self._num = self._num_equal = self._num_counted = 0
        self._similarity = 0.0
        self._sums: dict[str, float] = {}

    def add(self, comparison: Comparison) -> None:
        """Takes one in."""
        self._num += 1
        self._num_equal += comparison.is_equal
        self._similarity += comparison.similarity
        counts = ("prompt_tokens", "full_prompt_tokens", "completion_tokens", "full_completion_tokens")
        fields = comparison.plain()
        is_counted = all(fields[name] is not None for name in counts)
        self._num_counted += is_counted
        for name in ("elapsed_s", "full_elapsed_s", *(counts if is_counted else ())):
            self._sums[name] = self._sums.get(name, 0) + fields[name]

    def plain(self) -> dict[str, Any]:
        """Counts, and means over the calls that were compared; tokens over `num_counted` of them."""
        told: dict[str, Any] = {
            "num_compared": self._num,
            "num_equal": self._num_equal,
            "num_counted": self._num_counted,
            "num_failed": self.num_failed,
            "num_left_out": self.num_left_out,
            "mean_similarity": self._similarity / self._num if self._num else None,
        }
        for name, total in self._sums.items():
            told[f"mean_{name}"] = total / (self._num if name.endswith("_s") else self._num_counted)
        return told


def compared(first: ChatResponse, full: ChatResponse, elapsed_s: float, full_elapsed_s: float) -> Comparison:
    """The client's answer beside the full view's."""
    calls, full_calls = _calls(first.tool_calls), _calls(full.tool_calls)
    words, full_words = (
        [*answer.content.split(), *map(str, made)][:MAX_WORDS]
        for answer, made in ((first, calls), (full, full_calls))
    )
    prompt, completion = _tokens(first)
    full_prompt, full_completion = _tokens(full)
    return Comparison(
        is_equal=first.content == full.content and calls == full_calls,
        similarity=difflib.SequenceMatcher(None, words, full_words, autojunk=False).ratio(),
        prompt_tokens=prompt,
        full_prompt_tokens=full_prompt,
        completion_tokens=completion,
        full_completion_tokens=full_completion,
        elapsed_s=elapsed_s,
        full_elapsed_s=full_elapsed_s,
    )


def _calls(calls: tuple[ToolCall, ...]) -> list[tuple[str, Any]]:
    """Names and arguments; ids are new in every answer."""
    return [(call.function.name, _value(call.function.arguments)) for call in calls if call.function]


def _value(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def _tokens(answer: ChatResponse) -> tuple[int | None, int | None]:
    """The verifier's prompt and the answer, from the usage or from AsymSpec's report."""
    prompt, completion = answer.usage.prompt_tokens, answer.usage.completion_tokens
    report = answer.report
    if report is not None:
        prompt = prompt or report.verifier_prompt_tokens
        completion = completion or report.accepted + report.fused + report.bonus
    return prompt or None, completion or None
