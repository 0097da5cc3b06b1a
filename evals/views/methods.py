"""The ways to shorten, by name: what each is, whether it takes a size, and the compressor behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from asymspec_agents.backends import Backend
from asymspec_agents.compress import AutoCompressor, Compressor
from asymspec_agents.compress.extractive import extraction
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.compress.ranking import NoRanker, default_ranker
from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from asymspec_agents.summary import SummaryCompressor

from ..cells import Reader, ViewSpec
from .meter import Meter, SummaryMeter
from .rendering import Head, Middle, TextTokens

__all__ = ["METHODS", "Method", "ViewMeans", "check_view", "list_views"]


@dataclass(frozen=True, slots=True)
class ViewMeans:
    """What views are made with: the verifier's tokens, models for plain requests and their sizes.

    `params` are numbers of parameters, None where unknown. `llmlingua` is a checkpoint's folder or hub name.
    """

    tokens: TextTokens
    plain: Callable[[Reader], Backend]
    params: Callable[[Reader], int | None]
    llmlingua: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A way to shorten. `size`: whether a view names one (`ratio`: a share, which may be left out).

    `compressor` None: no text is shortened by itself. `needs` is what must be there beforehand, in words for
    an error, None where nothing lacks.
    """

    description: str
    size: Literal["needed", "ratio", "none"] = "needed"
    compressor: Callable[[ViewMeans, Meter], Compressor] | None = None
    needs: Callable[[ViewMeans], str | None] = lambda means: None


def _extract(means: ViewMeans, meter: Meter) -> Compressor:
    ranker = default_ranker()
    if isinstance(ranker, NoRanker):
        raise MissingDependencyError("bm25s", "compress")
    return extraction(ranker, HeadTail())


def _auto(means: ViewMeans, meter: Meter) -> Compressor:
    if isinstance(default_ranker(), NoRanker):
        raise MissingDependencyError("bm25s", "compress")
    return AutoCompressor()


def _llmlingua(means: ViewMeans, meter: Meter) -> Compressor:
    from .llmlingua import metered_llmlingua

    return metered_llmlingua(means.llmlingua or "", means.device, meter)


def _llmlingua_needs(means: ViewMeans) -> str | None:
    if means.llmlingua is not None:
        return None
    return (
        "a checkpoint of LLMLingua-2: give its folder or hub name, such as "
        "microsoft/llmlingua-2-xlm-roberta-large-meetingbank, with --llmlingua"
    )


def _summary(reader: Reader) -> Callable[[ViewMeans, Meter], Compressor]:
    def made(means: ViewMeans, meter: Meter) -> Compressor:
        recorder: Any = SummaryMeter(means.params(reader), meter)
        return SummaryCompressor(means.plain(reader), timeout_s=None, recorder=recorder)

    return made


METHODS: dict[str, Method] = {
    "extract": Method("the sentences that bear on the question (extractive)", compressor=_extract),
    "auto": Method("by the kind of each text: prose, JSON, code, logs, tables, …", compressor=_auto),
    "truncate": Method(
        "the first and the last half of the tokens, nothing between (LongBench's way)",
        compressor=lambda means, meter: Middle(means.tokens),
    ),
    "head": Method("the first tokens", compressor=lambda means, meter: Head(means.tokens)),
    "headtail": Method("head and tail at line ends, around a marker", compressor=lambda *_: HeadTail()),
    "llmlingua": Method(
        "the words that LLMLingua-2 keeps; needs its checkpoint",
        compressor=_llmlingua,
        needs=_llmlingua_needs,
    ),
    "summary": Method("a summary by the verifier", compressor=_summary("verifier")),
    "summary_drafter": Method("a summary by the drafter", compressor=_summary("drafter")),
    "signature": Method("the tools' signatures; every text stays", size="none"),
    "router": Method("the whole conversation through ContextRouter, whose ratio may be given", size="ratio"),
    "none": Method("nothing: both views are the same, but for images that a model can't see", size="none"),
}


def list_views() -> dict[str, str]:
    """Every method with how its size is written and what it does, a line each."""
    forms = {"needed": "{0}@SHARE or {0}@TOKENS", "ratio": "{0} or {0}@SHARE", "none": "{0}"}
    return {forms[method.size].format(name): method.description for name, method in METHODS.items()}


def check_view(spec: ViewSpec, means: ViewMeans | None = None) -> Method:
    """The view's method. Raises ConfigurationError for an unknown one, a wrong size, or what it lacks."""
    method = METHODS.get(spec.method)
    if method is None:
        raise ConfigurationError(f"view={str(spec)!r} is unknown; methods: {', '.join(METHODS)}")
    if method.size == "needed" and spec.size is None:
        raise ConfigurationError(
            f"view={str(spec)!r} needs a size, such as {spec.method}@0.3 or {spec.method}@500 (tokens)"
        )
    if method.size == "none" and spec.size is not None:
        raise ConfigurationError(f"view={str(spec)!r}: {spec.method} has no size; write {spec.method}")
    if method.size == "ratio" and spec.size is not None and not spec.size < 1:
        raise ConfigurationError(f"view={str(spec)!r}: the ratio must be a share below 1")
    if means is not None and (lacking := method.needs(means)) is not None:
        raise ConfigurationError(f"view={str(spec)!r} needs {lacking}")
    return method
