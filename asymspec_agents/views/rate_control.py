"""An adaptive compression ratio: reads what answers report and moves the ratio of turns to come.

Not in the paper; off unless asked for. What it reads: the mean divergence of an answer, JSD between the
drafter's distributions on the full and on the compressed view, says how much the compressed view leaves out
that bears on the answer; acceptance says whether the verifier, who reads the compressed view, agrees with the
drafter, who reads everything. High divergence: compress less. Low divergence and high acceptance, so that
steering has nothing to do: compress more. Anything else: hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..errors import ConfigurationError
from ..protocol import AsymSpecReport
from ..recording import NULL_RECORDER, Recorder
from .rate import RateState

__all__ = ["RateControl"]

Reason = Literal["divergence", "idle", "steady", "settling", "bound", "no evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateControl:
    """When and how far the ratio moves; raises ConfigurationError.

    `ratio` is where it starts (the policy's own, normally), `min_ratio` and `max_ratio` are its bounds,
    `factor` is one move. It goes up where the smoothed divergence is above `high_divergence` nats, down where
    that is below `low_divergence` and the smoothed acceptance at least `min_acceptance`; in between it holds.
    `smoothing` is the weight of the newest answer. After a move `min_answers` answers must be read before the
    next, so that one odd answer moves nothing twice. The thresholds are starting points, not tuned on data.
    """

    ratio: float = 0.3
    min_ratio: float = 0.15
    max_ratio: float = 0.6
    high_divergence: float = 0.1
    low_divergence: float = 0.02
    min_acceptance: float = 0.7
    factor: float = 1.5
    smoothing: float = 0.3
    min_answers: int = 3

    def __post_init__(self) -> None:
        for name in (
            "ratio",
            "min_ratio",
            "max_ratio",
            "high_divergence",
            "low_divergence",
            "min_acceptance",
        ):
            self._check(name, 0, 1)
        self._check("factor", 1, 10)
        self._check("smoothing", 0, 1)
        self._check("min_answers", 1, 10**6)
        for name, is_valid, limit in (
            ("min_ratio", 0 < self.min_ratio <= self.ratio, "over 0 and at most ratio"),
            ("max_ratio", self.ratio <= self.max_ratio < 1, "at least ratio and below 1"),
            ("low_divergence", self.low_divergence < self.high_divergence, "below high_divergence"),
            ("factor", self.factor > 1, "over 1"),
            ("smoothing", self.smoothing > 0, "over 0"),
            ("min_answers", isinstance(self.min_answers, int), "an integer"),
        ):
            if not is_valid:
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: must be {limit}")

    def _check(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and least <= value <= most):
            raise ConfigurationError(f"{name}={value!r}: must be from {least:g} to {most:g}")

    def after(
        self,
        state: RateState,
        report: AsymSpecReport | None,
        *,
        num_turns: int,
        recorder: Recorder = NULL_RECORDER,
    ) -> RateState:
        """The state after an answer to a list of `num_turns` turns that was routed with `state`.

        A function of its arguments alone. An answer without a report, without drafts or decoded in another
        way than asked for is no evidence. Records one `rate` event: what was read, what moved, and why.
        """
        state = state.seen(num_turns)
        before = self._current(state)
        if report is None or report.fallback is not None or not _has_evidence(report):
            self._record(recorder, report, state, before, "no evidence")
            return state
        state = replace(
            state,
            divergence=self._smoothed(state.divergence, report.mean_divergence),
            acceptance=self._smoothed(state.acceptance, report.accepted / report.drafted),
            num_since_move=state.num_since_move + 1,
        )
        reason, wanted = self._judged(state, before)
        if wanted != before:
            state = state.moved(wanted)
        self._record(recorder, report, state, before, reason)
        return state

    def _judged(self, state: RateState, ratio: float) -> tuple[Reason, float]:
        divergence, acceptance = state.divergence or 0.0, state.acceptance or 0.0
        if divergence > self.high_divergence:
            reason: Reason = "divergence"
            wanted = min(self.max_ratio, ratio * self.factor)
        elif divergence < self.low_divergence and acceptance >= self.min_acceptance:
            reason = "idle"
            wanted = max(self.min_ratio, ratio / self.factor)
        else:
            return "steady", ratio
        if state.num_since_move < self.min_answers:
            return "settling", ratio
        wanted = round(wanted, 4)  # short in JSON, the same in every process
        return ("bound" if wanted == ratio else reason), wanted

    def _current(self, state: RateState) -> float:
        return state.steps[-1].ratio if state.steps else self.ratio

    def _smoothed(self, before: float | None, value: float) -> float:
        return value if before is None else before + self.smoothing * (value - before)

    def _record(
        self,
        recorder: Recorder,
        report: AsymSpecReport | None,
        state: RateState,
        before: float,
        reason: Reason,
    ) -> None:
        recorder.record(
            "rate",
            reason=reason,
            ratio_before=before,
            ratio=self._current(state),
            from_turn=state.steps[-1].from_turn if state.steps else None,
            num_turns=state.num_turns,
            mean_divergence=report.mean_divergence if report is not None else None,
            divergence=state.divergence,
            acceptance=state.acceptance,
        )


def _has_evidence(report: AsymSpecReport) -> bool:
    """Whether drafts were judged, by figures that can be true (a server's report is somebody else's)."""
    return 0 <= report.accepted <= report.drafted != 0 and 0 <= report.mean_divergence <= 0.6932
