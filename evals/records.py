"""What a run leaves: one record per sample and cell, with every LLM call it took. Reports read only these."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from asymspec_agents.trace.events import RoleTokens

__all__ = ["Call", "Failure", "Output", "Record", "Score"]


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Plain):
    """One LLM call: its views, its work and its answer.

    Token counts are those of the model that reads the prompt. `computed_tokens` are all positions each model
    computed, prefill and decoding; None where a server does not say. `drafted_per_position[i]` counts blocks
    that proposed an (i+1)-th token. `divergence_sum` is in nats over `num_judged` positions. Seconds are wall
    time; `compress_s` is what making the view took. `segments` are pieces of the answer and how each came
    about (accepted, fused, bonus, plain).
    """

    prompt_tokens: RoleTokens = RoleTokens()
    cached_tokens: RoleTokens = RoleTokens()
    computed_tokens: RoleTokens | None = None
    full_tokens: int | None = None
    compressed_tokens: int | None = None
    completion_tokens: int = 0
    mode: str | None = None
    fallback: str | None = None
    finish_reason: str | None = None
    num_blocks: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_fused: int = 0
    num_bonus: int = 0
    drafted_per_position: tuple[int, ...] = ()
    accepted_per_position: tuple[int, ...] = ()
    num_judged: int = 0
    divergence_sum: float = 0.0
    elapsed_s: float = 0.0
    time_to_first_token_s: float | None = None
    compress_s: float = 0.0
    extra_flops: float = 0.0  # of models that made the view
    text: str = ""
    segments: tuple[tuple[str, str], ...] = ()


class Output(_Plain):
    """An arm's answer to a sample. `answer` is the text that is scored, `tool_calls` the wire form of calls.

    `views` are the texts of the last call, for looking at: what was full and what took its place.
    `trajectory` is what an agent did, as plain JSON.
    """

    answer: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    calls: tuple[Call, ...] = ()
    elapsed_s: float = 0.0
    peak_memory_bytes: int | None = None
    views: tuple[dict[str, Any], ...] = ()
    trajectory: tuple[dict[str, Any], ...] = ()


class Failure(_Plain):
    """Why there is no output, or no score; it counts as a wrong answer and stays in the denominator.

    `stage` is `answer` (the arm failed) or `score` (a judge did, which is reported apart).
    """

    stage: str
    error_type: str
    message: str


class Score(_Plain):
    """What a scorer says: named numbers, the suite's own metric among them, and what explains them."""

    values: dict[str, float]
    details: dict[str, Any] = Field(default_factory=dict)


class Record(_Plain):
    """One sample answered by one cell.

    Files of records are only ever added to: asked or scored again, a sample's next record has the next
    `version`, and takes the place of the one before.
    """

    suite: str
    sample: str
    cell: str
    groups: dict[str, str] = Field(default_factory=dict)
    output: Output | None = None
    score: Score | None = None
    failure: Failure | None = None
    finished_at: str = ""
    """ISO 8601, UTC."""
    version: int = Field(default=1, ge=1)

    @property
    def key(self) -> tuple[str, str, str]:
        """What may stand once in a run."""
        return self.suite, self.sample, self.cell

    def restricted(self) -> Record:
        """This record without what may quote the benchmark: views, trajectory and the texts of calls.

        The id, the answer that is scored, the score and all counts stay.
        """
        if self.output is None:
            return self
        calls = tuple(call.model_copy(update={"text": "", "segments": ()}) for call in self.output.calls)
        output = self.output.model_copy(update={"views": (), "trajectory": (), "calls": calls})
        return self.model_copy(update={"output": output})
