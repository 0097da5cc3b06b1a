"""A request's prompts in token ids: both views through the models' chat templates."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..messages import Message, ToolSpec
from ..tokens import clean_text
from .pictures import RequestImages, has_images, images_of, seen_of
from .request import AnyRequest, ChatRequest, CompletionRequest

if TYPE_CHECKING:
    from ..engine.chat import ChatTemplate
    from ..engine.cross_family import CrossFamily
    from ..engine.vision.prompt import SeeingPrompts
    from ..engine.vision.sight import Sight

__all__ = ["DrafterPrompts", "PromptMaker", "Prompts"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Token ids of both views, the verifier's; what the drafter reads in ids of its own, else None.

    `sight`: the images that it sees in its full view; `fallbacks`: what stands for images it does not see.
    """

    full: Sequence[int]
    compressed: Sequence[int]
    drafter_full: Sequence[int] | None = None
    drafter_compressed: Sequence[int] | None = None
    sight: Sight | None = None
    fallbacks: tuple[str, ...] = ()


class PromptMaker:
    """Renders both views. `vocab_size` bounds token ids that are given as such; `model` names the reader.

    `seeing` makes the prompts of a drafter that sees images.
    """

    def __init__(
        self, template: ChatTemplate, vocab_size: int, model: str, seeing: SeeingPrompts | None = None
    ) -> None:
        self.template = template
        self._vocab_size = vocab_size
        self._model = model
        self._seeing = seeing

    def prompts(self, request: AnyRequest, *, shows_images: bool = True) -> Prompts:
        """Both views, equal for a request without an `asymspec` object.

        `shows_images`: the drafter reads the full view. Raises UnsupportedRequestError for an image that
        nobody sees and no text replaces.
        """
        if isinstance(request, ChatRequest):
            seeing = self._seeing if shows_images else None
            if has_images(request.messages):
                return self._with_images(request, seeing)
            prompts = self._chat(request, request.messages)
            return prompts if self._seeing is None else self._own(request, prompts, self._seeing)
        return self._completion(request)

    def full(self, request: AnyRequest) -> list[int]:
        """The full view alone; where the drafter sees its images, as it reads them."""
        if isinstance(request, ChatRequest):
            return self.ids(request.messages, request.tools, request.chat_template_kwargs)
        return self.given("prompt", request.prompt)

    def ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of a view, as a model that sees reads it where there are images and such a model."""
        seeing = self._seeing
        if seeing is None or not has_images(messages):
            return self.template.ids(messages, tools, template_kwargs)
        shown = seen_of(tuple(messages), max_bytes=seeing.looker.options.max_image_bytes)
        ids = seeing.prompt(messages, tools, template_kwargs, shown).ids
        return [seeing.looker.kind.image_token_id if token < 0 else token for token in ids]

    def _with_images(self, request: ChatRequest, seeing: SeeingPrompts | None) -> Prompts:
        max_bytes = None if seeing is None else seeing.looker.options.max_image_bytes
        images = images_of(request.messages, request.asymspec, max_bytes=max_bytes)
        prompts = replace(self._chat(request, images.texts), fallbacks=images.fallbacks)
        if self._seeing is None:
            return prompts
        return self._own(request, prompts, self._seeing, images)

    def _own(
        self,
        request: ChatRequest,
        prompts: Prompts,
        seeing: SeeingPrompts,
        images: RequestImages | None = None,
    ) -> Prompts:
        """The prompts with those of a drafter that has a template of its own."""
        tools, short_tools = _tools(request)
        kwargs = request.chat_template_kwargs
        messages = request.messages if images is None else images.messages
        full = seeing.prompt(messages, tools, kwargs, {} if images is None else images.shown)
        asymspec = request.asymspec
        short = messages if asymspec is None else asymspec.compressed_messages(request.messages)
        compressed = full if asymspec is None else seeing.prompt(short, short_tools, kwargs)
        return replace(prompts, drafter_full=full.ids, drafter_compressed=compressed.ids, sight=full.sight)

    def _chat(self, request: ChatRequest, full_messages: Sequence[Message]) -> Prompts:
        asymspec = request.asymspec
        tools, short_tools = _tools(request)
        if tools and not self.template.shows_tools:
            _warn_of_hidden_tools(self._model)
        full = self._rendered(request, full_messages, tools)
        if asymspec is None:
            return Prompts(full, full)
        messages = asymspec.compressed_messages(request.messages)
        return Prompts(full, self._rendered(request, messages, short_tools))

    def _completion(self, request: CompletionRequest) -> Prompts:
        full = self.given("prompt", request.prompt)
        if request.asymspec is None:
            return Prompts(full, full)
        return Prompts(full, self.given("asymspec.prompt", request.asymspec.prompt))

    def _rendered(
        self, request: ChatRequest, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> list[int]:
        return self.template.ids(messages, tools, request.chat_template_kwargs)

    def given(self, field: str, prompt: str | tuple[int, ...]) -> list[int]:
        """The ids of a text, or ids as they are; raises ConfigurationError for those that do not exist."""
        if isinstance(prompt, str):
            ids: list[int] = self.template.tokenizer.encode(clean_text(prompt))
            return ids
        limit = self._vocab_size
        wrong = next((token for token in prompt if not 0 <= token < limit), None)
        if wrong is not None:
            raise ConfigurationError(f"{field}: token id {wrong} is not in the vocabulary of {limit:,} ids")
        return list(prompt)


class DrafterPrompts:
    """What a drafter of another family reads, in its own tokens: by its own chat template, or, where that has
    no place for tools and the verifier's does, what the verifier reads."""

    def __init__(
        self, template: ChatTemplate, family: CrossFamily, model: str, verifier: ChatTemplate
    ) -> None:
        self._maker = PromptMaker(template, family.vocab_size, model)
        self._family = family
        self._hides_tools = verifier.shows_tools and not template.shows_tools

    def reads_verifiers(self, request: AnyRequest) -> bool:
        """Whether the verifier's prompts of a chat are what the drafter reads."""
        return isinstance(request, ChatRequest) and self._hides_tools and bool(_tools(request)[0])

    def beside(self, request: AnyRequest, verifier: Prompts) -> Prompts:
        """The verifier's prompts with the drafter's own; prompts given as ids are the verifier's."""
        if self.reads_verifiers(request):
            respelled = self._family.transcriber.respelled
            own = Prompts(respelled(verifier.full), respelled(verifier.compressed))
        elif isinstance(request, ChatRequest):
            own = self._maker.prompts(request)
        else:
            short = request.prompt if request.asymspec is None else request.asymspec.prompt
            own = Prompts(self._text(request.prompt, verifier.full), self._text(short, verifier.compressed))
        return replace(verifier, drafter_full=own.full, drafter_compressed=own.compressed)

    def _text(self, prompt: str | tuple[int, ...], ids: Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            return self._maker.given("prompt", prompt)
        return self._family.transcriber.respelled(ids)


def _tools(request: ChatRequest) -> tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]:
    """The tools of the full and of the compressed view."""
    tools = () if request.tool_choice == "none" else request.tools
    asymspec = request.asymspec
    keeps = asymspec is None or asymspec.tools is None or request.tool_choice == "none"
    return tools, tools if keeps or asymspec is None or asymspec.tools is None else asymspec.tools


@lru_cache  # once for each model
def _warn_of_hidden_tools(model: str) -> None:
    logger.warning(
        "the chat template of %s has no place for tools: the model does not see them, unless the messages "
        "describe them (logged once)",
        model,
    )
