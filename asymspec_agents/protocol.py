"""The AsymSpec wire: the `asymspec` object of a request, its edits, and the report that answers it.

A request's `messages` and `tools` are always the full view. The compressed view is that list plus `edits`
(or whole `messages` of its own), so a server that ignores the object answers from the full view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from .decoding.modes import MAX_DRAFT_TOKENS, BonusMode, Delta, Gate, Rule, named_rule
from .errors import ConfigurationError, MessageError
from .messages import ContentPart, Message, Text, ToolSpec, deepest, index_path

__all__ = [
    "IMAGE_DRAFT_TOKENS",
    "PROTOCOL_VERSION",
    "AsymSpecCompletion",
    "AsymSpecOptions",
    "AsymSpecReport",
    "AsymSpecRequest",
    "CachedTokens",
    "CrossFamilyReport",
    "Edit",
    "apply_edits",
    "derive_edits",
]

PROTOCOL_VERSION = 1
IMAGE_DRAFT_TOKENS = 4
"""Drafts a block where the drafter sees images (arXiv 2608.26004, the cross-modal experiments)."""

_O = TypeVar("_O", bound="AsymSpecOptions")


class Edit(BaseModel):
    """Replaces one content part by text: `part` is its index, or None where the content is a string."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    message: int = Field(ge=0, strict=True)
    part: int | None = Field(default=None, ge=0, strict=True)
    text: Text


class AsymSpecOptions(BaseModel):
    """How to decode: a named mode, or gate and delta by name, and their parameters.

    Raises ConfigurationError (through `AsymSpecOptions.of`) naming field, value and range.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: str | None = None
    gate: Gate | None = None
    delta: Delta | None = None
    beta: float = Field(default=1.0, ge=0, le=4, strict=True, allow_inf_nan=False)
    gamma: float = Field(default=0.5, ge=0, le=4, strict=True, allow_inf_nan=False)
    num_draft_tokens: int = Field(default=2, ge=1, le=MAX_DRAFT_TOKENS, strict=True)
    bonus: BonusMode = "rule"
    plausibility: float = Field(default=0.0, ge=0, lt=1, strict=True, allow_inf_nan=False)
    agreement: bool = Field(default=False, strict=True)
    identical_views: Literal["strict", "gate"] = "strict"
    slack: float = Field(default=1.0, gt=0, le=1, strict=True, allow_inf_nan=False)
    scale: float = Field(default=4.0, gt=0, strict=True, allow_inf_nan=False)
    on_unsupported: Literal["error", "verifier"] = "error"
    on_sampling: Literal["error", "greedy"] = "error"

    @model_validator(mode="after")
    def _one_rule(self) -> AsymSpecOptions:
        if (self.gate is None) != (self.delta is None):
            raise ValueError("gate and delta must be given together")
        if self.gate is not None and self.mode is not None:
            raise ValueError("give mode, or gate and delta, not both")
        self.rule()
        return self

    @classmethod
    def of(cls: type[_O], **options: Any) -> _O:
        """Validated options; raises ConfigurationError instead of pydantic's own error."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise ConfigurationError(_first_problem(error)) from error

    @classmethod
    def paper(cls: type[_O], **options: Any) -> _O:
        """The authors' published configuration: unsteered bonus token, gate kept on identical views."""
        return cls.of(**{"bonus": "verifier", "identical_views": "gate", **options})

    @classmethod
    def for_images(cls: type[_O], **options: Any) -> _O:
        """The authors' configuration for a drafter that sees images: four drafts a block."""
        return cls.of(**{"num_draft_tokens": IMAGE_DRAFT_TOKENS, **options})

    def with_images(self: _O) -> _O:
        """These options for a request with images: four drafts a block unless they say how many."""
        if "num_draft_tokens" in self.model_fields_set:
            return self
        return self.model_copy(update={"num_draft_tokens": IMAGE_DRAFT_TOKENS})

    @property
    def mode_name(self) -> str:
        """The mode's name, or `gate+delta` when they were given by name."""
        if self.gate is not None:
            return f"{self.gate}+{self.delta}"
        return "asymspec" if self.mode is None else self.mode

    def rule(self) -> Rule:
        """The decoding rule these options name."""
        shared: dict[str, Any] = {
            "beta": self.beta,
            "gamma": self.gamma,
            "slack": self.slack,
            "plausibility": self.plausibility,
            "agreement": self.agreement,
        }
        if self.gate is not None and self.delta is not None:
            return Rule(self.gate, self.delta, **shared)
        if self.mode == "scaled":
            shared["scale"] = self.scale
        return named_rule(self.mode_name, **shared)


class AsymSpecRequest(AsymSpecOptions):
    """The `asymspec` object of a request: options, and the compressed view as edits or as messages."""

    version: Literal[1] = 1
    edits: tuple[Edit, ...] | None = None
    messages: tuple[Message, ...] | None = None
    tools: tuple[ToolSpec, ...] | None = None

    @model_validator(mode="after")
    def _one_view(self) -> AsymSpecRequest:
        if (self.edits is None) == (self.messages is None):
            raise ValueError(
                "exactly one of edits and messages must be given (empty edits: both views are the same)"
            )
        return self

    def compressed_messages(self, full: Sequence[Message]) -> tuple[Message, ...]:
        """The compressed view of `full`; raises MessageError for an edit that points nowhere."""
        if self.messages is not None:
            return self.messages
        return apply_edits(full, self.edits or ())

    def wire(self) -> dict[str, Any]:
        """The object as sent: everything given explicitly, the version always."""
        data: dict[str, Any] = {
            "version": self.version,
            **self.model_dump(exclude_unset=True, exclude={"messages", "tools", "edits"}),
        }
        if self.edits is not None:
            data["edits"] = [edit.model_dump(exclude_none=True) for edit in self.edits]
        if self.messages is not None:
            data["messages"] = [message.wire() for message in self.messages]
        if self.tools is not None:
            data["tools"] = [tool.wire() for tool in self.tools]
        return data


class AsymSpecCompletion(AsymSpecOptions):
    """The `asymspec` object of a text completion: options, and the compressed view as text or token ids."""

    version: Literal[1] = 1
    prompt: Text | tuple[StrictInt, ...]

    def wire(self) -> dict[str, Any]:
        """The object as sent: everything given explicitly, the version always."""
        return {"version": self.version, **self.model_dump(mode="json", exclude_unset=True)}


class CachedTokens(BaseModel):
    """Prompt tokens of each view that were not computed again."""

    model_config = ConfigDict(extra="allow", frozen=True)

    verifier: int = 0
    base: int = 0
    drafter: int = 0


class CrossFamilyReport(BaseModel):
    """How a drafter of another family fared; shares are of ids, in [0, 1].

    `mapped_tokens`: tokens that both vocabularies have, the only ones that are drafted and steered.
    `respelled`: emitted tokens that had no counterpart, so that the drafter read them as several of its own;
    `reread`: tokens that the drafter had read and read anew as their word was spelled otherwise.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    mapped_tokens: int = 0
    verifier_coverage: float = 0.0
    drafter_coverage: float = 0.0
    respelled: int = 0
    reread: int = 0


class AsymSpecReport(BaseModel):
    """What decoding did; every count is in tokens unless named otherwise.

    accepted + fused + bonus is the number of tokens emitted before trimming at EOS, stop or max_tokens.
    `drafted` counts every proposal, those behind a refusal too. `mean_divergence` (nats, in [0, ln 2]) is the
    mean of JSD(a‖b) over the positions the gate judged. `mode` is what ran, `fallback` why it differs from
    what was asked. `images`: images that the drafter saw in its full view. `cross_family` is there where
    drafter and verifier have different vocabularies.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    version: int = PROTOCOL_VERSION
    mode: str = "asymspec"
    verifier_prompt_tokens: int = 0
    drafter_prompt_tokens: int = 0
    cached_tokens: CachedTokens = CachedTokens()
    blocks: int = 0
    drafted: int = 0
    accepted: int = 0
    fused: int = 0
    bonus: int = 0
    accepted_per_position: tuple[int, ...] = ()
    mean_divergence: float = 0.0
    fallback: str | None = None
    images: int = 0
    cross_family: CrossFamilyReport | None = None


def _first_problem(error: ValidationError) -> str:
    problem = deepest(error)
    field = index_path(problem["loc"]).removeprefix(".")
    value = problem["input"]
    # Texts inside messages and edits are somebody's content: they stay out of the error.
    shows = str | int | float | None if field in AsymSpecOptions.model_fields else int | float | None
    shown = f"={value!r}" if isinstance(value, shows) and len(repr(value)) <= 80 else ""
    return f"{field}{shown}: {problem['msg']}" if field else problem["msg"]


def apply_edits(messages: Sequence[Message], edits: Sequence[Edit]) -> tuple[Message, ...]:
    """The messages with each edit's part replaced by its text; untouched messages are the same objects.

    An edited non-text part becomes a text part. Raises MessageError for an edit that points nowhere, that
    names a part of string content (or none of a list), or that repeats a place.
    """
    edited = list(messages)
    seen: set[tuple[int, int | None]] = set()
    for index, edit in enumerate(edits):
        place = f"edits[{index}] (message={edit.message}, part={edit.part})"
        if edit.message >= len(edited):
            raise MessageError(f"{place}: there are only {len(edited)} messages")
        if (edit.message, edit.part) in seen:
            raise MessageError(f"{place}: a second edit of the same place")
        seen.add((edit.message, edit.part))
        message = edited[edit.message]
        content = message.content
        if content is None:
            raise MessageError(f"{place}: the message has no content (tool calls cannot be edited)")
        if isinstance(content, str):
            if edit.part is not None:
                raise MessageError(f"{place}: the content is a string; omit part")
            edited[edit.message] = message.model_copy(update={"content": edit.text})
            continue
        if edit.part is None or edit.part >= len(content):
            raise MessageError(
                f"{place}: the content has parts 0 to {len(content) - 1}"
                if content
                else f"{place}: the content is an empty list"
            )
        parts = list(content)
        old = parts[edit.part]
        parts[edit.part] = (
            old.model_copy(update={"text": edit.text})
            if old.type == "text"
            else ContentPart(type="text", text=edit.text)
        )
        edited[edit.message] = message.model_copy(update={"content": tuple(parts)})
    return tuple(edited)


def derive_edits(full: Sequence[Message], compressed: Sequence[Message]) -> tuple[Edit, ...]:
    """The edits that turn `full` into `compressed`; raises MessageError where edits cannot express it."""
    if len(full) != len(compressed):
        raise MessageError(
            f"edits keep the number of messages: {len(full)} in full, {len(compressed)} in compressed"
        )
    edits: list[Edit] = []
    for index, (before, after) in enumerate(zip(full, compressed, strict=True)):
        if before == after:
            continue
        if isinstance(before.content, str) and isinstance(after.content, str):
            edits.append(Edit(message=index, text=after.content))
        elif (
            isinstance(before.content, tuple)
            and isinstance(after.content, tuple)
            and len(before.content) == len(after.content)
        ):
            for part, (old, new) in enumerate(zip(before.content, after.content, strict=True)):
                if old != new:
                    if new.type != "text" or new.text is None:
                        raise MessageError(
                            f"messages[{index}].content[{part}]: an edit can only put text there"
                        )
                    edits.append(Edit(message=index, part=part, text=new.text))
    if apply_edits(full, edits) != tuple(compressed):
        raise MessageError("the two message lists differ in more than the text of single parts")
    return tuple(edits)
