"""Prefix reuse proven from a trace: what each reader computed, against what it had to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from asymspec_agents.engine.prefix import common_length
from asymspec_agents.trace import MemoryRecorder, RequestEvent, ResponseEvent

from .runs import Run

__all__ = ["History", "common", "last_request", "last_response"]


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return sum(1 for _ in same)


def last_request(recorder: MemoryRecorder) -> RequestEvent:
    return [event for event in recorder.events if isinstance(event, RequestEvent)][-1]


def last_response(recorder: MemoryRecorder) -> ResponseEvent:
    return [event for event in recorder.events if isinstance(event, ResponseEvent)][-1]


@dataclass
class History:
    """Every sequence the two models have read, and the checks of a call against it (default bonus only)."""

    recorder: MemoryRecorder
    read: dict[str, list[list[int]]] = field(default_factory=lambda: {"verifier": [], "drafter": []})

    def expected(self, model: str, prompt: Sequence[int]) -> int:
        """The longest prefix of the prompt, its last token aside, that an earlier call has read."""
        return max((common(prompt[:-1], sequence) for sequence in self.read[model]), default=0)

    def check(self, run: Run, prompts: dict[str, list[int]], num_draft_tokens: int = 2) -> None:
        """Asserts that each reader computed what lies beyond its longest known prefix, and nothing else.

        The base view also knows what the drafter's full view of the same call begins with.

        A reader keeps its prompt and the answer but for the last token, which no forward has read yet.
        """
        request, response = last_request(self.recorder), last_response(self.recorder)
        for role, prompt in prompts.items():
            model = _model(role)
            cached = getattr(request.cached_tokens, role)
            assert cached == self.expected(model, prompt), role
            assert getattr(run.report.cached_tokens, role) == cached
            assert getattr(request.prompt_tokens, role) == len(prompt)
            shared = common_length(prompt[:-1], prompts["drafter"][:-1]) if role == "base" else 0
            prefill = len(prompt) - 1 - max(cached, shared)
            per_block = num_draft_tokens + 1
            forwarded = getattr(response.forwarded_tokens, role)
            assert forwarded == prefill + per_block * run.report.blocks, role
        for role, prompt in prompts.items():
            self.read[_model(role)].append([*prompt, *run.tokens[:-1]])


def _model(role: str) -> str:
    return "verifier" if role == "verifier" else "drafter"
