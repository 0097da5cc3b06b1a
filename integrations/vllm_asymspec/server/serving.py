"""vLLM's serving objects for one request on two views: both are rendered, the compressed one is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from asymspec_agents.errors import ConfigurationError, ContextOverflowError, UnsupportedRequestError

from ..admission import check_request
from ..budget import Limits
from ..images import check_places, spans_of
from ..reading import reading_of
from ..vision import features_of
from ..wire_args import AsymSpecArgs, pack_ids
from .asked import Asked
from .bodies import ChatViews, CompletionViews
from .compat import ErrorResponse, OpenAIServingChat, OpenAIServingCompletion
from .seen_views import SeenViews
from .tap import EngineTap

__all__ = ["ChatOnViews", "CompletionOnViews", "Settled", "on_views"]

_S = TypeVar("_S")


@dataclass(slots=True)
class Settled:
    """How a request is answered, once its views are rendered.

    `default_tokens`: the longest answer where the request names none; None is as long as there is room.
    """

    asked: Asked
    limits: Limits
    default_tokens: int | None = None
    num_full_tokens: int = 0
    has_identical_views: bool = False
    images: tuple[Any, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether identical views make decoding lossless though the request asks for another gate."""
        options = self.asked.options
        keeps_gate = options.identical_views == "gate" or options.rule().gate == "strict"
        return self.has_identical_views and not keeps_gate

    def settle(
        self, views: ChatViews | CompletionViews, full: Any, compressed: Any, base: Any = None
    ) -> None:
        """Checks the rendered views, and gives the request what the engine needs.

        `base`: the compressed view as the drafter reads it, where it reads by a template of its own. Raises
        ContextOverflowError, ConfigurationError or UnsupportedRequestError.
        """
        images = tuple(features_of(full)) if full["type"] == "multimodal" else ()
        full_ids, short_ids = _token_ids(full, "full"), _text_ids(compressed, "compressed")
        check_places(spans_of(images), len(full_ids))
        base_ids = short_ids if base is None else _text_ids(base, "compressed")
        own = self.asked.own
        if own is not None:
            full_ids = _token_ids({"prompt_token_ids": own.drafter_full}, "full")
            base_ids = _token_ids({"prompt_token_ids": own.drafter_compressed}, "compressed")
        self.num_full_tokens = len(full_ids)
        self.has_identical_views = not images and list(full_ids) == list(base_ids)
        wanted = self.asked.request.max_tokens or self.default_tokens
        if not self.asked.is_plain:
            salt = self.asked.request.cache_salt or None
            packed = b"" if own is None and base_ids == short_ids else pack_ids(base_ids)
            argument = AsymSpecArgs(pack_ids(full_ids), self.asked.options, salt, len(images), packed)
            try:
                views.settle(argument.pack(), self._max_tokens(argument, short_ids, wanted))
                self.images = images
                return
            except ContextOverflowError as error:
                if not self.asked.allows_plain:
                    raise
                self.asked = self.asked.as_plain(f"{error.view}_view_overflow")
        views.settle(None, self._plain_max_tokens(len(short_ids), wanted))

    def _max_tokens(self, argument: AsymSpecArgs, short_ids: Sequence[int], wanted: int | None) -> int:
        packed = pack_ids(short_ids)
        check_request(self.limits, argument, packed, wanted or 1)
        return wanted or self.limits.max_answer_tokens(
            num_full=argument.num_full_tokens,
            num_compressed=len(short_ids),
            has_base=reading_of(argument, packed).has_base,
            num_base=argument.num_base_tokens,
        )

    def _plain_max_tokens(self, num_compressed: int, wanted: int | None) -> int:
        limit = self.limits.max_model_len
        if num_compressed + (wanted or 1) > limit:
            raise ContextOverflowError("compressed", num_compressed + (wanted or 1), limit)
        return wanted or limit - num_compressed


class ChatOnViews(OpenAIServingChat):  # type: ignore[misc]
    """vLLM's chat serving for one AsymSpec request."""

    settled: Settled
    seen_views: SeenViews | None = None

    async def render_chat_request(self, request: ChatViews) -> Any:
        """The compressed view, rendered. The full one is rendered from the request itself: that also gives it
        the grammar and the parser's wishes, by the full tools. A drafter that sees reads its own prompts."""
        error = await self._check_model(request)
        if error is not None:
            return error
        self._preflight(1)
        full = await self.online_renderer.render_chat(request)
        compressed = await self.online_renderer.render_chat(request.compressed)
        read, base = None, None
        if self.seen_views is not None and request.seen is not None:
            read = await self.seen_views.render(self.online_renderer, request.seen.full)
            base = await self.seen_views.render(self.online_renderer, request.seen.compressed)
        for rendered in (full, compressed, read, base):
            if isinstance(rendered, ErrorResponse):
                return rendered
        self.settled.settle(request, read or full[1][0], compressed[1][0], base)
        self.engine_client.images = self.settled.images
        return compressed


class CompletionOnViews(OpenAIServingCompletion):  # type: ignore[misc]
    """vLLM's completion serving for one AsymSpec request."""

    settled: Settled

    async def render_completion_request(self, request: CompletionViews) -> Any:
        """The compressed prompt, tokenized."""
        error = await self._check_model(request)
        if error is not None:
            return error
        self._preflight(1)
        full = await self.online_renderer.render_completion(request)
        if isinstance(full, ErrorResponse):
            return full
        compressed = await self.online_renderer.render_completion(request.compressed)
        if isinstance(compressed, ErrorResponse):
            return compressed
        _text_ids(full[0], "full")
        self.settled.settle(request, full[0], compressed[0])
        return compressed


def on_views(kind: type[_S], stock: Any, settled: Settled, engine: EngineTap) -> _S:
    """A serving object like vLLM's own, all its settings included, for one request."""
    serving: Any = kind.__new__(kind)
    serving.__dict__.update(vars(stock))
    serving.settled = settled
    serving.engine_client = engine
    return serving  # type: ignore[no-any-return]


def _text_ids(prompt: Any, view: str) -> Sequence[int]:
    """The ids of a rendered prompt. Raises for one with images or embeddings, and for an empty one."""
    if prompt.get("type", "token") != "token" or prompt.get("multi_modal_data"):
        raise UnsupportedRequestError(
            f"the {view} view holds media that AsymSpec doesn't read on vLLM; send their text, or leave out "
            "the asymspec object"
        )
    return _token_ids(prompt, view)


def _token_ids(prompt: Any, view: str) -> Sequence[int]:
    ids: Sequence[int] = prompt.get("prompt_token_ids") or ()
    if not ids:
        raise ConfigurationError(f"the {view} view has no tokens; it needs at least one")
    return ids
