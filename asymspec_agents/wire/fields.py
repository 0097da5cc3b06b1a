"""Which further fields of a request body change nothing: labels, and fields at their neutral values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["without_neutral"]

# Labels for the provider's own books: no value of theirs changes an answer.
LABELS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)

# Fields that some clients always send, and the values with which they change nothing.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "add_generation_prompt": (True,),
    "bad_words": ([],),
    "best_of": (1,),
    "continue_final_message": (False,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("auto", "none"),
    "functions": ([],),
    "ignore_eos": (False,),
    "include_reasoning": (True,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "priority": (0,),
    "repetition_penalty": (1,),
    "return_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stop_token_ids": ([],),
    "suffix": ("",),
    "top_k": (-1, 0),
    "top_logprobs": (0,),
    "use_beam_search": (False,),
    "verbosity": ("medium",),
}


def without_neutral(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that may change the answer: neither null nor a label nor at its neutral value."""
    return {
        name: value
        for name, value in extra.items()
        if value is not None and name not in LABELS and not _is_neutral(value, NEUTRAL.get(name, ()))
    }


def _is_neutral(value: Any, neutral: tuple[Any, ...]) -> bool:
    """Equal and of a like type: JSON's false is no 0."""
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral)
