"""What the verifier sees of an episode: the cell's view, applied to tool results as soon as they appear."""

from __future__ import annotations

from dataclasses import replace

from asymspec_agents.views import ViewPolicy

from ..cells import ViewSpec

__all__ = ["episode_policy"]

_WHOLE_TEXTS = frozenset({"none", "signature"})  # methods that shorten no text
_WHOLE = 0.999  # the ratio that leaves the size to a number of tokens


def episode_policy(
    view: ViewSpec | None, *, first_sight_tokens: int, min_part_tokens: int = 60
) -> ViewPolicy | None:
    """The view policy of an episode in this view; None where no text is shortened.

    Episodes here are short, so no turn stays verbatim (`keep_last=0`), and a result above
    `first_sight_tokens` is compressed when it first appears. A share (`extract@0.3`) is the ratio of every
    rendition. A number of tokens (`truncate@2000`) is the most that any text keeps: the paper's setting for
    attachments is `truncate@2000`. A view without a size keeps the router's usual ratio.
    A compressor may take its time: that is measured.
    """
    if view is None or view.method in _WHOLE_TEXTS:
        return None
    if view.size is None or view.size <= 1:
        policy = ViewPolicy(
            keep_last=0,
            first_sight_tokens=first_sight_tokens,
            min_part_tokens=min_part_tokens,
            compress_timeout_s=None,
        )
        return policy if view.size is None else replace(policy, ratio=min(view.size, _WHOLE))
    most = round(view.size)
    return ViewPolicy(
        keep_last=0,
        first_sight_tokens=most,
        min_part_tokens=most,
        max_rendition_tokens=most,
        ratio=_WHOLE,
        min_gain=0.0,
        compress_timeout_s=None,
    )
