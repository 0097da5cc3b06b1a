"""What an AsymSpec request asks of this server, checked before anything is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from asymspec_agents.backends.prompts import Prompts
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecCompletion, AsymSpecOptions, AsymSpecRequest

from ..admission import PROCESSED
from ..wire_args import EXTRA_ARG
from .own_views import OwnViews
from .pictures import ImageLimits

__all__ = ["Abilities", "Asked", "asked"]

# What makes no sense for one answer decoded from two views, on any model runner.
NEVER: Mapping[str, str] = {
    "n": "AsymSpec gives one answer a request",
    "best_of": "AsymSpec gives one answer a request",
    "use_beam_search": "AsymSpec decodes greedily",
    "watermarking": "AsymSpec decodes greedily",
    "echo": "there are two prompts",
    "suffix": "there are two prompts",
    "prompt_embeds": "prompts must be texts or token ids",
    "truncate_prompt_tokens": "views are never cut; shorten them before",
    "kv_transfer_params": "AsymSpec does not run with KV connectors",
    "ec_transfer_params": "AsymSpec does not run with KV connectors",
}

# What the older runner can't do, by its names in a request's body.
UNPROCESSED = (*PROCESSED, "top_logprobs")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this server's engine can do: K, and whether the rule sees processed logits (model runner V2).

    `images`: what its drafter may be shown, if it sees; `own_views`: how it reads, if it is of another
    family.
    """

    num_draft_tokens: int
    has_processed_logits: bool
    images: ImageLimits | None = None
    own_views: OwnViews | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be served. `fallbacks` name what had to differ from what was asked.

    `is_plain`: the verifier alone answers, from the compressed view. `own`: what a drafter of another family
    reads.
    """

    request: AnyRequest
    asymspec: AsymSpecRequest | AsymSpecCompletion
    options: AsymSpecOptions
    fallbacks: tuple[str, ...] = ()
    is_plain: bool = False
    own: Prompts | None = None

    @property
    def allows_plain(self) -> bool:
        """Whether the request would rather have the verifier's answer than an error."""
        return self.asymspec.on_unsupported == "verifier"

    def as_plain(self, reason: str) -> Asked:
        """The same, answered by the verifier alone, and why."""
        return replace(self, is_plain=True, fallbacks=(*self.fallbacks, reason))


def asked(request: AnyRequest, abilities: Abilities, *, shows_images: bool = False) -> Asked:
    """The request, its options settled. Raises UnsupportedRequestError naming field, value and way out.

    `shows_images`: the drafter sees images of it.
    """
    asymspec = request.asymspec
    if asymspec is None:
        raise UnsupportedRequestError("asymspec is missing")
    for name, reason in NEVER.items():
        value = request.extra.get(name)
        if value is not None and value is not False:
            raise UnsupportedRequestError(f"{name}={_short(value)}: {reason}; leave it out")
    xargs = request.extra.get("vllm_xargs")
    if isinstance(xargs, Mapping) and EXTRA_ARG in xargs:
        raise UnsupportedRequestError(
            f"vllm_xargs.{EXTRA_ARG}: the object itself is what counts; leave it out"
        )
    result = Asked(request, asymspec, _options(asymspec, abilities, shows_images))
    if request.temperature:
        if asymspec.on_sampling != "greedy":
            raise UnsupportedRequestError(
                f"temperature={request.temperature}: AsymSpec decoding is greedy; send 0 or leave it out, "
                'or ask for on_sampling="greedy"'
            )
        result = replace(result, fallbacks=("greedy",))
    for reason, error in _unsupported(request, asymspec, abilities):
        if not result.allows_plain:
            raise error
        return result.as_plain(reason)
    return result


def _options(asymspec: AsymSpecOptions, abilities: Abilities, shows_images: bool) -> AsymSpecOptions:
    """The options of decoding; a request without a number of drafts takes what the server has."""
    given = asymspec.model_dump(include=set(AsymSpecOptions.model_fields), exclude_unset=True)
    wanted = (asymspec.with_images() if shows_images else asymspec).num_draft_tokens
    return AsymSpecOptions.of(**{**given, "num_draft_tokens": min(wanted, abilities.num_draft_tokens)})


def _unsupported(
    request: AnyRequest, asymspec: AsymSpecOptions, abilities: Abilities
) -> list[tuple[str, UnsupportedRequestError]]:
    """What this server's AsymSpec decoding can't do of what is asked, though its verifier alone can.

    Each with the name of the fallback to that.
    """
    problems = []
    if abilities.own_views is not None:
        problems += abilities.own_views.problems(request, asymspec)
    wanted, most = asymspec.num_draft_tokens, abilities.num_draft_tokens
    if "num_draft_tokens" in asymspec.model_fields_set and wanted > most:
        text = (
            f"num_draft_tokens={wanted}: this server drafts up to {most}; "
            "start it with a larger num_speculative_tokens"
        )
        problems.append(("num_draft_tokens_unsupported", UnsupportedRequestError(text)))
    if not abilities.has_processed_logits:
        for name in UNPROCESSED:
            value = request.extra.get(name)
            if value is not None and value is not False:
                text = (
                    f"{name}={_short(value)}: with vLLM's model runner V1, AsymSpec doesn't know it; "
                    "leave it out, or serve with model runner V2 (it needs Triton)"
                )
                problems.append((f"{name}_unsupported", UnsupportedRequestError(text)))
    return problems


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
