"""Chats for a drafter that sees: images stand where the template, or a placeholder in a text, puts them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from transformers import PreTrainedTokenizerBase

from ...errors import MessageError
from ...messages import ContentPart, Message
from ..chat import ChatTemplate, part_text, template_message
from ..control_tokens import Disguise
from .kinds import Kind

__all__ = ["SeeingTemplate", "ShownPart", "seeing_template"]

PROBE = "probe"


class ShownPart(ContentPart):
    """An image that the drafter sees, in a message for its template."""

    type: str = "image"


class SeeingTemplate(ChatTemplate):
    """Renders messages with images: each becomes one image token.

    With `takes_parts` the template is given lists of parts and writes images itself, as those of
    vision-language models do; without, the family's placeholder stands in the text.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, kind: Kind, template: str | None, *, takes_parts: bool
    ) -> None:
        super().__init__(tokenizer, template, kind.control_names)
        self._kind = kind
        self._takes_parts = takes_parts

    @cached_property
    def shows_images(self) -> bool:
        """Whether the template writes an image of a message, and the text beside it, into the prompt."""
        parts = (ShownPart(), ContentPart(type="text", text=PROBE))
        try:
            ids = self.ids([Message(role="user", content=parts)])
        except MessageError:
            return False
        return ids.count(self._kind.image_token_id) == 1 and PROBE in self.tail(ids)

    def _shaped(self, message: Message, disguise: Disguise) -> dict[str, Any]:
        data = template_message(message)
        content = message.content
        if self._takes_parts:
            data["content"] = None if data["content"] is None else _parts(content)
        elif isinstance(content, tuple):
            placeholder = self._kind.placeholder
            texts = (
                disguise.admit(placeholder) if isinstance(part, ShownPart) else part_text(part)
                for part in content
            )
            data["content"] = "\n".join(texts)
        return data


def seeing_template(
    tokenizer: PreTrainedTokenizerBase, kind: Kind, own: list[str | None], verifier: ChatTemplate
) -> SeeingTemplate:
    """The first of the drafter's `own` templates that shows images, and tools if the verifier's does.

    Else the verifier's, with placeholders: a drafter that does not hear of tools is no help in calling them.
    """
    for template in own:
        made = SeeingTemplate(tokenizer, kind, template, takes_parts=True)
        if template is not None and made.shows_images and (made.shows_tools or not verifier.shows_tools):
            return made
    shared = verifier.tokenizer.chat_template
    return SeeingTemplate(tokenizer, kind, shared if isinstance(shared, str) else None, takes_parts=False)


def _parts(content: str | tuple[ContentPart, ...] | None) -> list[dict[str, str]]:
    """The content as a list, neighbouring texts joined as they are in a text alone."""
    parts: list[dict[str, str]] = []
    for part in content if isinstance(content, tuple) else (ContentPart(type="text", text=content or ""),):
        if isinstance(part, ShownPart):
            parts.append({"type": "image"})
        elif parts and parts[-1]["type"] == "text":
            parts[-1] = {"type": "text", "text": f"{parts[-1]['text']}\n{part_text(part)}"}
        else:
            parts.append({"type": "text", "text": part_text(part)})
    return parts
