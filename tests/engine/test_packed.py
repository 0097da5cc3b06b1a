"""Two views read in one forward give what each gives alone."""

from __future__ import annotations

import pytest
import torch

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import View
from asymspec_agents.protocol import CachedTokens
from asymspec_agents.trace import MemoryRecorder, ResponseEvent

from .fresh import LOGIT_TOLERANCE, check_view, uncached_logits
from .runs import run
from .tiny import pair, prompt, tiny_engine


def views(num_tokens: tuple[int, ...]) -> list[View]:
    _, model = pair("qwen2")
    made = [View(model, prompt(seed, length)) for seed, length in enumerate(num_tokens, 1)]
    for view in made:
        view.prefill(lambda: None)
    return made


def test_full_attention_models_pack_and_sliding_ones_do_not() -> None:
    assert [pair(architecture)[1].can_pack for architecture in ("qwen2", "mistral")] == [True, False]


@pytest.mark.parametrize("lengths", [(40, 7), (7, 40), (1, 1), (12, 12), (1, 30)])
@pytest.mark.parametrize("committed", [[], [5], [5, 9, 3]])
def test_packed_logits_and_caches_are_those_of_each_view_alone(
    lengths: tuple[int, int], committed: list[int]
) -> None:
    both = views(lengths)
    rows = View.read_each(both, [view.unread(committed) for view in both])
    for view, row in zip(both, rows, strict=True):
        wanted = uncached_logits(view.model, [*view.prompt, *committed])[-1]
        torch.testing.assert_close(row[0, 0], wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)
        assert view.num_forwarded == view.cache.length == len(view.prompt) + len(committed)
        view.rewind(committed)
        check_view(view, committed)


def test_pieces_of_different_lengths_pack() -> None:
    both = views((20, 9))
    View.read_each(both[:1], [torch.tensor([[both[0].prompt[-1]]])])
    rows = View.read_each(both, [torch.tensor([[4]]), torch.tensor([[both[1].prompt[-1], 4]])])
    for view, row in zip(both, rows, strict=True):
        wanted = uncached_logits(view.model, [*view.prompt, 4])[-1]
        torch.testing.assert_close(row[0, 0], wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)


def test_an_interrupted_packed_forward_leaves_both_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    both = views((20, 9))
    before = [view.cache.length for view in both]
    layer = both[0].model.module.model.layers[1]

    def fail(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(layer, "forward", fail)
    with pytest.raises(KeyboardInterrupt):
        View.read_each(both, [view.unread([]) for view in both])
    monkeypatch.undo()
    assert [view.cache.length for view in both] == before
    for view in both:
        check_view(view, [])


def test_the_text_is_the_same_packed_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    full, compressed = prompt(1, 60), prompt(2, 20)
    packed = run(tiny_engine("qwen2"), (full, compressed), max_tokens=80)
    monkeypatch.setattr(CausalModel, "can_pack", False)
    apart = run(tiny_engine("qwen2"), (full, compressed), max_tokens=80)
    assert packed.tokens == apart.tokens
    assert packed.outcome.report == apart.outcome.report


def test_a_model_that_mixes_the_sequences_does_not_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, _ = pair("qwen2")
    model = CausalModel(verifier.module, "mixing")

    def mixed(ids: list[torch.Tensor], caches: list[KVCache]) -> list[torch.Tensor]:
        return [model.forward(torch.cat(ids, dim=1), caches[0], 1)] * 2

    monkeypatch.setattr(model, "forward_packed", mixed)
    assert not model.can_pack


def test_the_base_view_begins_with_what_the_drafter_has_read() -> None:
    common = prompt(3, 30)
    full, compressed = [*common, *prompt(1, 60)], [*common, *prompt(2, 12)]
    recorder = MemoryRecorder()
    engine = tiny_engine("qwen2", recorder=recorder)
    shared = run(engine, (full, compressed), max_tokens=10)
    engine.prefixes.clear()
    apart = run(engine, ([7, *full], compressed), max_tokens=10)
    with_shared, without = (e.forwarded_tokens for e in recorder.events if isinstance(e, ResponseEvent))
    extra = with_shared.verifier - with_shared.base
    assert extra == 30
    assert without.verifier == without.base
    # What is shared within a call comes from no earlier one.
    assert shared.report.cached_tokens == apart.report.cached_tokens == CachedTokens()
