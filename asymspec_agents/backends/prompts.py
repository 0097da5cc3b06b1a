"""A request's prompts in token ids: both views through the models' chat templates."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..messages import Message, ToolSpec
from ..tokens import clean_text
from .request import AnyRequest, ChatRequest, CompletionRequest

if TYPE_CHECKING:
    from ..engine.chat import ChatTemplate
    from ..engine.cross_family import CrossFamily

__all__ = ["DrafterPrompts", "PromptMaker", "Prompts"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Token ids of both views, the verifier's; what the drafter reads in ids of its own, else None."""

    full: Sequence[int]
    compressed: Sequence[int]
    drafter_full: Sequence[int] | None = None
    drafter_compressed: Sequence[int] | None = None


class PromptMaker:
    """Renders both views. `vocab_size` bounds token ids that are given as such; `model` names the reader."""

    def __init__(self, template: ChatTemplate, vocab_size: int, model: str) -> None:
        self.template = template
        self._vocab_size = vocab_size
        self._model = model

    def prompts(self, request: AnyRequest) -> Prompts:
        """Both views, equal for a request without an `asymspec` object."""
        if isinstance(request, ChatRequest):
            return self._chat(request)
        return self._completion(request)

    def full(self, request: AnyRequest) -> list[int]:
        """The full view alone."""
        if isinstance(request, ChatRequest):
            return self._rendered(request, request.messages, request.tools)
        return self.given("prompt", request.prompt)

    def _chat(self, request: ChatRequest) -> Prompts:
        asymspec = request.asymspec
        tools = () if request.tool_choice == "none" else request.tools
        if tools and not self.template.shows_tools:
            _warn_of_hidden_tools(self._model)
        full = self._rendered(request, request.messages, tools)
        if asymspec is None:
            return Prompts(full, full)
        short_tools = tools if asymspec.tools is None or request.tool_choice == "none" else asymspec.tools
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
    """What a drafter of another family reads: its own chat template, and its own tokens for given ids."""

    def __init__(self, template: ChatTemplate, family: CrossFamily, model: str) -> None:
        self._maker = PromptMaker(template, family.vocab_size, model)
        self._family = family

    def beside(self, request: AnyRequest, verifier: Prompts) -> Prompts:
        """The verifier's prompts with the drafter's own; prompts given as ids are the verifier's."""
        if isinstance(request, ChatRequest):
            own = self._maker.prompts(request)
        else:
            short = request.prompt if request.asymspec is None else request.asymspec.prompt
            own = Prompts(self._text(request.prompt, verifier.full), self._text(short, verifier.compressed))
        return replace(verifier, drafter_full=own.full, drafter_compressed=own.compressed)

    def _text(self, prompt: str | tuple[int, ...], ids: Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            return self._maker.given("prompt", prompt)
        return self._family.transcriber.respelled(ids)


@lru_cache  # once for each model
def _warn_of_hidden_tools(model: str) -> None:
    logger.warning(
        "the chat template of %s has no place for tools: the model does not see them, unless the messages "
        "describe them (logged once)",
        model,
    )
