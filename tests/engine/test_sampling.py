"""Sampling of plain requests: what is drawn, how often, and that a seed says it all."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from asymspec_agents.engine.arms import ARMS
from asymspec_agents.engine.engine import DecodeRequest
from asymspec_agents.engine.sampling import Sampler, Sampling
from asymspec_agents.errors import ConfigurationError

from .fresh import uncached_logits
from .runs import run
from .tiny import VOCAB, pair, tiny_engine, views
from .tiny_folder import ask, random_backend

NUM_DRAWS = 4000


def row(*logits: float) -> Tensor:
    return torch.tensor([[logits]])


def expected(logits: list[float], temperature: float, top_p: float) -> dict[int, float]:
    """Shares of the ids left: most likely first, until they have a share of top_p together."""
    weights = np.exp((np.array(logits) - max(logits)) / temperature)
    shares = weights / weights.sum()
    kept: dict[int, float] = {}
    for token in np.argsort(-shares, kind="stable"):
        if kept and sum(kept.values()) >= top_p:
            break
        kept[int(token)] = float(shares[token])
    return {token: share / sum(kept.values()) for token, share in kept.items()}


@pytest.mark.parametrize(
    ("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (3.0, 1.0), (1.0, 0.7), (2.0, 0.55), (1, 0.05)]
)
def test_draws_have_the_shares_of_temperature_and_top_p(temperature: float, top_p: float) -> None:
    logits = [2.0, 1.0, 0.5, -1.0, 1.5, -math.inf]
    sampler = Sampler(Sampling(temperature, top_p, seed=7), len(logits))
    counts = Counter(sampler.draw(row(*logits)) for _ in range(NUM_DRAWS))
    wanted = expected(logits, temperature, top_p)
    assert set(counts) <= set(wanted) - {5}
    for token, share in wanted.items():
        deviation = math.sqrt(share * (1 - share) / NUM_DRAWS)
        assert abs(counts[token] / NUM_DRAWS - share) <= 5 * deviation + 1e-9


@given(
    temperature=st.sampled_from([5e-324, 1e-310, 1e-30, 1e-3, 1.0, 1e30, 1.7e308]),
    top_p=st.sampled_from([0.0, 1e-300, 0.5, 1.0]),
    seed=st.integers(-(2**63), 2**63 - 1),
    data=st.data(),
)
def test_extreme_settings_draw_an_allowed_id(temperature: float, top_p: float, seed: int, data: Any) -> None:
    logits = data.draw(st.lists(st.sampled_from([-math.inf, -1e30, -3.0, 0.0, 2.0, 3e38]), min_size=4))
    logits[0] = 1.0
    vocab_size = len(logits) - 1  # the last id belongs to no token
    token = Sampler(Sampling(temperature, top_p, seed), vocab_size).draw(row(*logits))
    assert token < vocab_size
    assert logits[token] > -math.inf
    if temperature < 1e-20 or top_p < 0.1:
        assert logits[token] == max(logits[:vocab_size])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"temperature": 0}, "temperature=0"),
        ({"temperature": -1.0}, r"temperature=-1\.0"),
        ({"temperature": math.nan}, "temperature=nan"),
        ({"temperature": math.inf}, "temperature=inf"),
        ({"temperature": 1, "top_p": 1.1}, r"top_p=1\.1"),
        ({"temperature": 1, "top_p": math.nan}, "top_p=nan"),
        ({"temperature": 1, "seed": 2**63}, "seed=9223372036854775808"),
    ],
)
def test_settings_out_of_range_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{named} must be"):
        Sampling(**fields)


@pytest.mark.parametrize("arm", [name for name, arm in ARMS.items() if arm.drafting is not None])
def test_arms_with_a_drafter_are_greedy(arm: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^temperature=0\.7: arm '{arm}' is greedy"):
        DecodeRequest(full=[1], compressed=[1], arm=ARMS[arm], sampling=Sampling(0.7))


def test_a_text_is_drawn_token_by_token_from_the_models_own_logits() -> None:
    """The engine's text is what a loop without any cache draws with the same seed."""
    engine = tiny_engine()
    both = views(3)
    result = run(engine, both, arm="ceiling", max_tokens=16, sampling=Sampling(1.3, 0.9, 5))
    sampler, text = Sampler(Sampling(1.3, 0.9, 5), VOCAB), list[int]()
    while len(text) < 16:
        logits = uncached_logits(pair("qwen2")[0], [*both[0], *text])[-1]
        text.append(sampler.draw(logits[None, None]))
    assert result.tokens == text
    assert result.tokens != run(engine, both, arm="ceiling", max_tokens=16).tokens
    assert {origin for step in result.steps for origin in step.origins} == {"bonus"}


def test_a_seed_says_it_all() -> None:
    backend = random_backend()

    def text(**fields: Any) -> str:
        return backend.generate(ask(edits=None, max_tokens=24, **{"temperature": 1.0, **fields})).content

    first = text(seed=11)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert text(seed=11) == first
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's draws are touched
    backend.engine.prefixes.clear()
    assert text(seed=11, request_id="another") == first
    assert len({first, text(seed=12), text(seed=-11), text(), text()}) == 5
    assert text(seed=11, top_p=1) == first != text(seed=11, temperature=2)


def test_without_a_temperature_nothing_is_drawn() -> None:
    backend = random_backend()
    greedy = backend.generate(ask(edits=None)).content
    for temperature in (None, 0, 0.0):
        answer = backend.generate(ask(edits=None, temperature=temperature, top_p=0.3, seed=4))
        assert answer.content == greedy
    for fields in ({"top_p": 0}, {"temperature": 1e-9}):  # the best token, whatever the seed
        assert backend.generate(ask(edits=None, **{"temperature": 5.0, **fields})).content == greedy


def test_the_drafter_samples_too_where_it_is_the_arm() -> None:
    backend = random_backend().with_arm("drafter")
    texts = [
        backend.generate(ask(edits=None, temperature=1, seed=3, max_tokens=20)).content for _ in range(2)
    ]
    assert (
        texts[0]
        == texts[1]
        != random_backend().generate(ask(edits=None, temperature=1, seed=3, max_tokens=20)).content
    )
