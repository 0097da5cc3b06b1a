"""What the server refuses before anything is rendered, and what it changes when a request allows that."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.wire.requests import parse_chat
from vllm_asymspec.server.asked import NEVER, UNPROCESSED, Abilities, asked

V1 = Abilities(num_draft_tokens=3, has_processed_logits=False)
V2 = Abilities(num_draft_tokens=3, has_processed_logits=True)
MESSAGES = [{"role": "user", "content": "Hello"}]
VALUES: dict[str, Any] = {
    "best_of": 3,
    "n": 2,
    "use_beam_search": True,
    "watermarking": True,
    "echo": True,
    "suffix": "end",
    "prompt_embeds": "aGk=",
    "truncate_prompt_tokens": 0,
    "kv_transfer_params": {"do_remote_prefill": True},
    "ec_transfer_params": {},
    "logit_bias": {"1": 2},
    "bad_words": ["no"],
    "allowed_token_ids": [1],
    "logprob_token_ids": [1],
    "logprobs": 0,
}


def request(options: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = {"messages": MESSAGES, "asymspec": {"edits": [], **(options or {})}, **fields}
    return parse_chat(body).request


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("wish", ["error", "verifier"])
def test_what_two_views_cannot_have_is_refused_always(name: str, wish: str) -> None:
    with pytest.raises(UnsupportedRequestError, match=f"^{name}="):
        asked(request({"on_unsupported": wish}, **{name: VALUES[name]}), V2)


@pytest.mark.parametrize("name", UNPROCESSED)
def test_what_the_older_runner_lacks(name: str) -> None:
    value = VALUES.get(name, 2)
    assert not asked(request(**{name: value}), V2).is_plain
    with pytest.raises(UnsupportedRequestError, match=f"^{name}=.*runner V2"):
        asked(request(**{name: value}), V1)
    plain = asked(request({"on_unsupported": "verifier"}, **{name: value}), V1)
    assert plain.is_plain
    assert plain.fallbacks == (f"{name}_unsupported",)


def test_neutral_fields_are_no_wish() -> None:
    neutral = {"n": 1, "logprobs": False, "echo": False, "min_tokens": 0, "frequency_penalty": 0}
    answer = asked(request(**neutral, use_beam_search=False, logit_bias=None), V1)
    assert not answer.is_plain
    assert answer.fallbacks == ()


@given(wanted=st.integers(1, 8) | st.none(), most=st.integers(1, 8))
def test_drafts_never_exceed_the_servers(wanted: int | None, most: int) -> None:
    abilities = Abilities(num_draft_tokens=most, has_processed_logits=True)
    options = {} if wanted is None else {"num_draft_tokens": wanted}
    if wanted is not None and wanted > most:
        with pytest.raises(UnsupportedRequestError, match=f"num_draft_tokens={wanted}: .*up to {most}"):
            asked(request(options), abilities)
        plain = asked(request({**options, "on_unsupported": "verifier"}), abilities)
        assert plain.fallbacks == ("num_draft_tokens_unsupported",)
    else:
        assert asked(request(options), abilities).options.num_draft_tokens == min(wanted or 2, most)


def test_the_other_options_stay_as_they_were_given() -> None:
    options = {"gate": "slack", "delta": "none", "slack": 0.5, "identical_views": "gate", "bonus": "none"}
    settled = asked(request({**options, "tools": []}), V2).options
    given = settled.model_dump(exclude_unset=True)
    assert given == {**options, "num_draft_tokens": 2}


def test_sampling() -> None:
    with pytest.raises(UnsupportedRequestError, match=re.escape("temperature=0.5")):
        asked(request(temperature=0.5), V2)
    assert asked(request({"on_sampling": "greedy"}, temperature=0.5), V2).fallbacks == ("greedy",)
    assert asked(request({"on_sampling": "greedy"}, temperature=0), V2).fallbacks == ()
    both = request({"on_sampling": "greedy", "on_unsupported": "verifier"}, temperature=1, logprobs=True)
    assert asked(both, V1).fallbacks == ("greedy", "logprobs_unsupported")


def test_the_engines_argument_cannot_be_smuggled_in() -> None:
    with pytest.raises(UnsupportedRequestError, match=re.escape("vllm_xargs.asymspec")):
        asked(request(vllm_xargs={"asymspec": "x"}), V2)
    assert not asked(request(vllm_xargs={"other": "x"}), V2).is_plain
