"""Whether a request can be served at all; checked before it is queued, and by the scheduler again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asymspec_agents.errors import ConfigurationError, UnsupportedRequestError

from .budget import Limits
from .reading import reading_of
from .wire_args import AsymSpecArgs, unpack_ids

__all__ = ["PROCESSED", "check_engine_request", "check_own_ids", "check_request"]

# Fields of SamplingParams, each with the value that asks for nothing. The rule has to see logits that went
# through them, or log-probabilities have to be the rule's; with the first model runner neither is so.
PROCESSED: Mapping[str, Any] = {
    "allowed_token_ids": None,
    "bad_words": [],
    "frequency_penalty": 0,
    "logit_bias": {},
    "logprob_token_ids": None,
    "logprobs": None,
    "min_tokens": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "thinking_token_budget": None,
}


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
    base_ids = args.base_ids or compressed_ids
    for view, packed in (("full", args.full_ids), ("compressed", base_ids)):
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
        num_base=args.num_base_tokens,
    )


def check_own_ids(args: AsymSpecArgs, *, has_own: bool, sees: bool) -> None:
    """Raises ConfigurationError for views that aren't the drafter's.

    `has_own`: it has tokens of its own; `sees`: it may have a template of its own, as it sees images.
    """
    if has_own and not args.base_ids:
        raise ConfigurationError(
            "asymspec.base_ids is missing: the drafter reads both views in a vocabulary of its own"
        )
    if args.base_ids and not (has_own or sees):
        raise ConfigurationError(
            "asymspec.base_ids: the drafter reads what the verifier reads; leave it out or set vocab_map"
        )


def check_engine_request(request: Any, *, has_processed_logits: bool) -> None:
    """Raises UnsupportedRequestError for what vLLM's request asks for and AsymSpec can't do.

    `has_processed_logits`: whether the rule sees the verifier's logits as a request's fields change them, as
    with the second model runner.
    """
    params = request.sampling_params
    if request.prompt_token_ids is None or request.prompt_embeds is not None:
        raise UnsupportedRequestError("prompt_embeds: AsymSpec needs the compressed view as token ids")
    if request.mm_features:
        raise UnsupportedRequestError("images or audio in the compressed view: it is read as text")
    if request.resumable:
        raise UnsupportedRequestError("streaming input: both views must be whole from the start")
    if request.lora_request is not None:
        raise UnsupportedRequestError("lora_request: the drafter knows no LoRA adapters")
    if params.temperature > 0:
        raise UnsupportedRequestError(f"temperature={params.temperature}: AsymSpec decoding is greedy; set 0")
    for name, neutral in PROCESSED.items():
        value = getattr(params, name, neutral)
        if not has_processed_logits and value is not None and value != neutral:
            raise UnsupportedRequestError(
                f"{name}={value!r:.80}: with vLLM's model runner V1, AsymSpec doesn't know it; "
                "leave it out, or run model runner V2 (it needs Triton)"
            )
