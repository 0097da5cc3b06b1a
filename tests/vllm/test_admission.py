"""What AsymSpec can't do of what a request to vLLM's engine asks for, whoever sent it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from asymspec_agents.errors import UnsupportedRequestError
from vllm_asymspec.admission import PROCESSED, check_engine_request

ASKED: dict[str, Any] = {
    "allowed_token_ids": [5],
    "bad_words": ["no"],
    "frequency_penalty": 0.5,
    "logit_bias": {5: 1.0},
    "logprob_token_ids": [5],
    "logprobs": 0,  # those of the emitted tokens alone
    "min_tokens": 3,
    "presence_penalty": -1.0,
    "repetition_penalty": 1.2,
    "thinking_token_budget": 0,
}


def request(fields: Any = (), **params: Any) -> Any:
    """vLLM's request as far as it is looked at."""
    return SimpleNamespace(
        **{
            "prompt_token_ids": [1],
            "prompt_embeds": None,
            "mm_features": [],
            "resumable": False,
            "lora_request": None,
            "sampling_params": SimpleNamespace(**{"temperature": 0.0, **params}),
            **dict(fields),
        }
    )


@pytest.mark.parametrize("name", PROCESSED)
def test_what_the_older_runner_would_ignore(name: str) -> None:
    asked = request(**{name: ASKED[name]})
    check_engine_request(asked, has_processed_logits=True)
    with pytest.raises(UnsupportedRequestError, match=rf"^{name}=.*runner V2"):
        check_engine_request(asked, has_processed_logits=False)


def test_neutral_values_ask_for_nothing() -> None:
    check_engine_request(request(), has_processed_logits=False)
    check_engine_request(request(**PROCESSED), has_processed_logits=False)
    check_engine_request(request(bad_words=None, logit_bias=None), has_processed_logits=False)


@pytest.mark.parametrize(
    ("fields", "params", "told"),
    [
        ({"prompt_token_ids": None}, {}, "prompt_embeds"),
        ({"prompt_embeds": object()}, {}, "prompt_embeds"),
        ({"mm_features": [object()]}, {}, "images"),
        ({"resumable": True}, {}, "streaming input"),
        ({"lora_request": object()}, {}, "lora_request"),
        ({}, {"temperature": 0.3}, r"temperature=0\.3"),
    ],
)
def test_what_no_runner_can_do(fields: dict[str, Any], params: dict[str, Any], told: str) -> None:
    with pytest.raises(UnsupportedRequestError, match=told):
        check_engine_request(request(fields, **params), has_processed_logits=True)


def test_vllms_defaults_are_neutral() -> None:
    vllm = pytest.importorskip("vllm", reason="SamplingParams are vLLM's", exc_type=ImportError)
    params = vllm.SamplingParams(temperature=0)
    assert all(hasattr(params, name) for name in PROCESSED)
    check_engine_request(request({"sampling_params": params}), has_processed_logits=False)
