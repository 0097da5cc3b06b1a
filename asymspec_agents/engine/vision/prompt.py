"""Messages and images to the ids that a drafter that sees reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigurationError, MessageError
from ...messages import Message, ToolSpec
from .looking import Looker
from .picture import Picture
from .sight import Sight
from .template import SeeingTemplate, ShownPart

__all__ = ["Place", "SeeingPrompts", "SeenPrompt"]

Place = tuple[int, int]  # a message and a part of it


@dataclass(frozen=True, slots=True)
class SeenPrompt:
    """Token ids, negative where an image's features stand, and the images; None where there is none."""

    ids: list[int]
    sight: Sight | None


class SeeingPrompts:
    """Makes the prompts of a drafter that sees."""

    def __init__(self, template: SeeingTemplate, looker: Looker) -> None:
        self.template = template
        self.looker = looker

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        template_kwargs: Mapping[str, Any] | None = None,
        pictures: Mapping[Place, Picture] | None = None,
    ) -> SeenPrompt:
        """The prompt with the `pictures` shown at their places, all other parts as text.

        Raises ConfigurationError for too many images, MessageError for one that cannot be read and for
        messages that the template refuses.
        """
        shown = dict(sorted((pictures or {}).items()))
        different = len({picture.digest for picture in shown.values()})
        if different > self.looker.options.max_images:
            raise ConfigurationError(
                f"the full view has {different:,} different images, over the limit of "
                f"max_images={self.looker.options.max_images:,}"
            )
        looks = [self.looker.look(picture) for picture in shown.values()]
        rendered = self.template.ids(_showing(messages, shown), tools, template_kwargs)
        if not looks:
            return SeenPrompt(rendered, None)
        image_token_id = self.looker.kind.image_token_id
        num_places = rendered.count(image_token_id)
        if num_places != len(looks):
            raise MessageError(
                f"the drafter's chat template shows {num_places} of {len(looks)} images: it has no place for "
                "images in messages of some role"
            )
        waiting = iter(looks)
        ids: list[int] = []
        for token in rendered:
            ids.extend(next(waiting).layout.ids if token == image_token_id else (token,))
        sight = Sight(ids, looks, has_grid_positions=self.looker.kind.has_grid_positions)
        return SeenPrompt(ids, sight)


def _showing(messages: Sequence[Message], places: Mapping[Place, Picture]) -> list[Message]:
    """The messages with an image's part marked as one that is shown."""
    marked = list(messages)
    for index in {message for message, _ in places}:
        content = marked[index].content
        if isinstance(content, tuple):
            parts = (
                ShownPart() if (index, number) in places else part for number, part in enumerate(content)
            )
            marked[index] = marked[index].model_copy(update={"content": tuple(parts)})
    return marked
