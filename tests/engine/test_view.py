"""One view: chunked prefill, reading ahead, rolling back."""

from __future__ import annotations

import pytest
import torch

from asymspec_agents.engine import view as view_module
from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.view import PREFILL_CHUNK, View
from asymspec_agents.errors import RequestAbortedError

from .fresh import LOGIT_TOLERANCE, check_view, uncached_logits
from .tiny import ARCHITECTURES, pair, prompt

by_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


@by_architecture
@pytest.mark.parametrize("length", [1, 2, 30, PREFILL_CHUNK, PREFILL_CHUNK + 1, PREFILL_CHUNK + 2])
def test_prefill_stops_before_the_last_token(architecture: str, length: int) -> None:
    model, _ = pair(architecture)
    view = View(model, prompt(1, length))
    checks = []
    view.prefill(lambda: checks.append(view.cache.length))
    assert view.cache.length == view.num_forwarded == length - 1
    assert checks == list(range(0, length - 1, PREFILL_CHUNK))
    check_view(view, [])


@by_architecture
def test_chunks_do_not_show(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = pair(architecture)
    monkeypatch.setattr(view_module, "PREFILL_CHUNK", 7)
    view = View(model, prompt(2, 45))
    view.prefill(lambda: None)
    check_view(view, [])


@by_architecture
def test_an_aborted_prefill_keeps_what_it_read(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = pair(architecture)
    monkeypatch.setattr(view_module, "PREFILL_CHUNK", 10)
    view = View(model, prompt(2, 45))

    def check() -> None:
        if view.cache.length >= 20:
            raise RequestAbortedError("enough")

    with pytest.raises(RequestAbortedError):
        view.prefill(check)
    assert view.cache.length == 20
    check_view(view, [])
    view.prefill(lambda: None)
    check_view(view, [])


@by_architecture
@pytest.mark.parametrize("as_tensor", [False, True])
def test_advance_reads_what_is_unread_and_the_drafts(architecture: str, as_tensor: bool) -> None:
    model, _ = pair(architecture)
    tokens = prompt(3, 30)
    view = View(model, tokens)
    view.prefill(lambda: None)
    committed, drafts = [5, 6], [7, 8, 9]
    logits = view.advance(committed, torch.tensor([drafts]) if as_tensor else drafts, 4)
    everything = [*tokens, *committed, *drafts]
    torch.testing.assert_close(
        logits[0], uncached_logits(model, everything)[-4:], atol=LOGIT_TOLERANCE, rtol=1e-4
    )
    assert view.cache.length == len(everything)
    view.rewind(committed)
    check_view(view, committed)
    logits = view.advance(committed, [], 1)
    (extended,) = View.read_each([view], [torch.tensor([[4]])])
    expected = uncached_logits(model, [*tokens, *committed, 4])[-2:]
    torch.testing.assert_close(logits[0, 0], expected[0], atol=LOGIT_TOLERANCE, rtol=1e-4)
    torch.testing.assert_close(extended[0, 0], expected[1], atol=LOGIT_TOLERANCE, rtol=1e-4)


def test_a_view_uses_the_cache_it_is_given_even_an_empty_one() -> None:
    model, _ = pair("qwen2")
    cache = KVCache()
    cache.reserve(700)
    view = View(model, prompt(1, 20), cache)
    assert view.cache is cache
    view.prefill(lambda: None)
    assert cache.layers[0].keys.shape[-2] == 700
