"""Whether a request can be served at all; checked before it is queued, and by the scheduler again."""

from __future__ import annotations

from typing import Any

from asymspec_agents.errors import ConfigurationError, UnsupportedRequestError

from .budget import Limits
from .views import reading_of
from .wire_args import AsymSpecArgs, unpack_ids

__all__ = ["check_engine_request", "check_request"]


def check_request(limits: Limits, args: AsymSpecArgs, compressed_ids: bytes, num_answer: int) -> None:
    """Raises for a request that can never be served, naming field, value and limit.

    `compressed_ids` as `pack_ids` packs them; `num_answer`: the most tokens of the answer.
    ContextOverflowError for a view that is too long, ConfigurationError for ids and numbers out of range.
    """
    options, most = args.options, limits.num_draft_tokens
    if "num_draft_tokens" in options.model_fields_set and options.num_draft_tokens > most:
        raise ConfigurationError(
            f"num_draft_tokens={options.num_draft_tokens} is over {most}, the engine's num_speculative_tokens"
        )
    if not compressed_ids:
        raise ConfigurationError("the compressed view is empty")
    for view, packed in (("full", args.full_ids), ("compressed", compressed_ids)):
        highest = max(unpack_ids(packed))
        if highest >= limits.drafter.vocab_size:
            raise ConfigurationError(
                f"token id {highest} of the {view} view: the drafter's end at {limits.drafter.vocab_size - 1}"
            )
    limits.check(
        num_full=args.num_full_tokens,
        num_compressed=len(unpack_ids(compressed_ids)),
        num_answer=num_answer,
        has_base=reading_of(args, compressed_ids).has_base,
    )


def check_engine_request(request: Any) -> None:
    """Raises UnsupportedRequestError for what vLLM's request asks for and AsymSpec can't do."""
    params = request.sampling_params
    if request.prompt_token_ids is None or request.prompt_embeds is not None:
        raise UnsupportedRequestError("prompt_embeds: AsymSpec needs the compressed view as token ids")
    if request.mm_features:
        raise UnsupportedRequestError("images or audio in the compressed view: the drafter reads text")
    if request.resumable:
        raise UnsupportedRequestError("streaming input: both views must be whole from the start")
    if request.lora_request is not None:
        raise UnsupportedRequestError("lora_request: the drafter knows no LoRA adapters")
    if params.temperature > 0:
        raise UnsupportedRequestError(f"temperature={params.temperature}: AsymSpec decoding is greedy; set 0")
