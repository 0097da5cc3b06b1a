"""What a request leaves in a trace: one event as it begins, one a block, one as it ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import RequestAbortedError
from ..recording import Recorder, detail_of
from .arms import Decoding
from .loop import Block
from .positions import Choice, Position
from .request import DecodeRequest
from .text import Decodes, TextStream
from .trim import Step

__all__ = ["RequestRecord", "TokenTexts"]

DIGITS = 6  # significant ones of a recorded probability


class TokenTexts:
    """The text of single tokens, special ones included, each decoded once."""

    def __init__(self, tokenizer: Decodes) -> None:
        self.of = lru_cache(maxsize=100_000)(
            lambda token: str(tokenizer.decode([token], skip_special_tokens=False))
        )


class RequestRecord:
    """Records one request. Token ids and texts go where contents are captured, positions where detail is."""

    def __init__(
        self, recorder: Recorder, request: DecodeRequest, tokenizer: Decodes, texts: TokenTexts
    ) -> None:
        self._recorder = recorder
        self._request = request
        self._texts = texts
        self._num_blocks = 0
        self._answer: list[str] = []
        self._stream = TextStream(tokenizer, (), request.visible_tokens)
        detail = detail_of(recorder)
        self.num_alternatives = None if detail is None else detail.num_alternatives

    def begin(
        self,
        decoding: Decoding,
        fallback: str | None,
        prompt_tokens: Mapping[str, int],
        cached_tokens: Mapping[str, int],
        queue_s: float,
        model: str,
    ) -> None:
        """What was asked, what runs, each prompt's length and reuse."""
        self._record(
            "request",
            model=model,
            arm=self._request.arm.name,
            mode=decoding.mode,
            gate=decoding.rule.gate,
            delta=decoding.rule.delta,
            beta=decoding.rule.beta,
            gamma=decoding.rule.gamma,
            num_draft_tokens=decoding.num_draft_tokens,
            bonus=decoding.bonus,
            fallback=fallback,
            prompt_tokens=dict(prompt_tokens),
            cached_tokens=dict(cached_tokens),
            queue_s=queue_s,
        )

    def block(self, block: Block, step: Step, elapsed_s: float) -> None:
        """One block, before and after trimming."""
        fields: dict[str, Any] = {}
        if self._recorder.captures_content:
            text = "".join(text for text, _ in step.pieces)
            self._answer.append(text)
            fields = {"token_ids": list(block.tokens), "origins": list(block.origins), "text": text}
        if block.positions is not None:
            fields["positions"] = self._positions(block, len(step.tokens))
        self._record(
            "block",
            index=self._num_blocks,
            num_drafted=block.num_drafted,
            num_accepted=block.origins.count("accepted"),
            num_fused=block.origins.count("fused"),
            num_bonus=block.origins.count("bonus"),
            divergence=list(block.divergence),
            elapsed_s=elapsed_s,
            **fields,
        )
        self._num_blocks += 1

    def end(
        self,
        finish_reason: str | None,
        num_tokens: int,
        elapsed_s: float,
        prefill_s: float,
        time_to_first_token_s: float | None,
        forwarded_tokens: Mapping[str, int],
    ) -> None:
        """The request is answered."""
        content = {"text": "".join(self._answer)} if self._recorder.captures_content else {}
        self._record(
            "response",
            finish_reason=finish_reason,
            num_tokens=num_tokens,
            elapsed_s=elapsed_s,
            prefill_s=prefill_s,
            time_to_first_token_s=time_to_first_token_s,
            forwarded_tokens=dict(forwarded_tokens),
            **content,
        )

    def fail(self, error: BaseException, forwarded_tokens: Mapping[str, int]) -> None:
        """The request ended without an answer."""
        if isinstance(error, GeneratorExit):
            error = RequestAbortedError("the caller closed the stream")
        self._record(
            "error",
            error_type=type(error).__name__,
            message=str(error),
            forwarded_tokens=dict(forwarded_tokens),
        )

    def _record(self, event: str, **fields: Any) -> None:
        self._recorder.record(event, request_id=self._request.request_id, **fields)

    def _positions(self, block: Block, num_kept: int) -> list[dict[str, Any]]:
        is_plain = self._request.arm.drafting is None
        return [
            self._position(
                position,
                origin="plain" if is_plain else block.origins[at],
                divergence=block.divergence[at] if at < len(block.divergence) else None,
                is_kept=at < num_kept,
            )
            for at, position in enumerate(block.positions or ())
        ]

    def _position(
        self, position: Position, *, origin: str, divergence: float | None, is_kept: bool
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "origin": origin,
            "is_argmax": position.token == position.argmax,
            "emitted_p_t": _rounded(position.emitted_p_t),
        }
        numbers = {
            "p_t": position.p_t,
            "p_a": position.p_a,
            "p_b": position.p_b,
            "divergence": divergence,
            "gamma_eff": position.gamma_eff,
        }
        fields |= {name: _rounded(number) for name, number in numbers.items() if number is not None}
        if not is_kept:
            fields["is_trimmed"] = True
        best = {"best_t": position.best_t, "best_a": position.best_a, "best_b": position.best_b}
        if not self._recorder.captures_content:
            given = {name: choices for name, choices in best.items() if choices}
            return fields | {
                name: [[_rounded(choice.probability)] for choice in choices]
                for name, choices in given.items()
            }
        fields["token_id"] = position.token
        if is_kept:
            fields["text"] = self._stream.push(position.token)
        token = self._texts.of(position.token)
        if token != fields.get("text"):
            fields["token"] = token
        if position.draft is not None and position.draft != position.token:
            fields |= {"draft_id": position.draft, "draft": self._texts.of(position.draft)}
        if position.argmax != position.token:
            fields |= {"argmax_id": position.argmax, "argmax": self._texts.of(position.argmax)}
        return fields | {
            name: [self._choice(choice) for choice in choices] for name, choices in best.items() if choices
        }

    def _choice(self, choice: Choice) -> list[Any]:
        return [_rounded(choice.probability), choice.token, self._texts.of(choice.token)]


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
