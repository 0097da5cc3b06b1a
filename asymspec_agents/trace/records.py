"""What events are made of: plain JSON values, token counts by reader, and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from ..messages import Text
from .plain import plain_json

__all__ = ["FROM_JSON", "BlockCount", "Count", "PositionRecord", "Record", "RoleTokens"]

Count = Annotated[int, Field(ge=0, le=2**53)]  # what a page can count with
BlockCount = Annotated[int, Field(ge=0, le=100_000)]  # metrics count each position of a block


FROM_JSON = {"from_json": True}  # what comes from a JSON file is plain already


class Record(BaseModel):
    """Plain JSON values; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any, info: ValidationInfo) -> Any:
        if info.context is FROM_JSON or not isinstance(data, Mapping):
            return data
        return plain_json(data)


class RoleTokens(Record):
    """A number of tokens for each reader of a prompt: the verifier, and the drafter's two passes."""

    verifier: Count = 0
    base: Count = 0
    drafter: Count = 0

    def __add__(self, other: RoleTokens) -> RoleTokens:
        return RoleTokens.model_construct(  # sums of valid counts need no validation
            verifier=self.verifier + other.verifier,
            base=self.base + other.base,
            drafter=self.drafter + other.drafter,
        )


class PositionRecord(Record):
    """One emitted position at level "detail".

    `p_t`, `p_a`, `p_b`: the draft's probability by the verifier, by the drafter on the full view, and by the
    drafter on the compressed one; `emitted_p_t` the emitted token's by the verifier. `is_argmax`: the
    verifier alone would have emitted the same. `best_*`: each reader's likeliest tokens as [probability, id,
    text], ids and texts only where contents are captured, as are `token_id`, `text` (what the token added to
    the answer), `token` (its own text where that is another) and the same of `draft` and `argmax` where they
    are other tokens. `is_trimmed`: behind the answer's end.
    """

    origin: Text
    is_argmax: bool | None = None
    emitted_p_t: float | None = None
    p_t: float | None = None
    p_a: float | None = None
    p_b: float | None = None
    divergence: float | None = None
    gamma_eff: float | None = None
    is_trimmed: bool = False
    best_t: tuple[tuple[Any, ...], ...] = ()
    best_a: tuple[tuple[Any, ...], ...] = ()
    best_b: tuple[tuple[Any, ...], ...] = ()
    token_id: int | None = None
    text: Text | None = None
    token: Text | None = None
    draft_id: int | None = None
    draft: Text | None = None
    argmax_id: int | None = None
    argmax: Text | None = None

    @property
    def is_changed(self) -> bool | None:
        """Whether the full view changed the token; one that was drawn without any draft is not changed."""
        return None if self.is_argmax is None else not self.is_argmax and self.origin != "plain"
