"""LLMLingua-2 as a method of views, with the FLOPs of its classifier."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from asymspec_agents.compress.base import Compressor
from asymspec_agents.tokens import TokenizerCounter

from .meter import Meter, Metered

__all__ = ["metered_llmlingua"]


def metered_llmlingua(checkpoint: str, device: str | None, meter: Meter) -> Compressor:
    """The compressor over a checkpoint; each rendition costs 2·params FLOPs a token of its text.

    Raises WeightsError where the checkpoint is none, MissingDependencyError without the extra `engine`.
    """
    compressor, flops_of = _loaded(checkpoint, device)
    return Metered(compressor, flops_of, meter)


@lru_cache(maxsize=2)
def _loaded(checkpoint: str, device: str | None) -> tuple[Compressor, Callable[[str], float]]:
    from asymspec_agents.compress.llmlingua import LLMLingua2
    from asymspec_agents.compress.llmlingua.checkpoint import checkpoint_folder, load_checkpoint

    loaded = load_checkpoint(checkpoint_folder(checkpoint, offline=False), device=device, dtype="float32")

    counter = TokenizerCounter(loaded.tokenizer)  # a copy: threads count while others compress

    def flops_of(text: str) -> float:
        return 2.0 * loaded.model.num_parameters * counter.count(text)

    return LLMLingua2(loaded, timeout_s=None), flops_of
