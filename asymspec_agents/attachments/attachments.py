"""Attachments: files and images in messages, as the texts that both views show in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from ..errors import ConfigurationError
from ..messages import Message
from ..protocol import Edit, apply_edits
from ..recording import NULL_RECORDER, Recorder
from ..store import ContentStore
from .describing import Captioner, TextReader
from .parts import read_part
from .policy import AttachmentPolicy
from .reading import AttachmentReader

__all__ = ["Attachments", "ReadMessages"]

Place = tuple[int, int]  # a message and a part of it


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """Messages with texts in place of attachments, and what was met in them.

    `full` is for the drafter, `shortened` (still with all text) is what the compressed view is made of; they
    differ in the images that the drafter sees itself: whole ones that come with their bytes. `headers` has
    the length of the line that says what the attachment at a place is. `num_degraded` counts those that a
    note stands for, whole or in part; `num_unseen` the images that are text for a drafter that sees others.
    """

    full: tuple[Message, ...]
    shortened: tuple[Message, ...]
    headers: Mapping[Place, int]
    num_documents: int = 0
    num_images: int = 0
    num_degraded: int = 0
    num_unseen: int = 0


class Attachments:
    """Makes text of files and images; one object serves any number of routers and threads.

    Each content is converted and described once, and its text stays the same from then on. Documents need the
    extra `documents`. Images are told by size and format; `captioner` says what they show, `text_reader` what
    is written in them. Without attachments nothing is started or loaded. `close` ends the converting process,
    which ends with this one anyway.
    """

    def __init__(
        self,
        policy: AttachmentPolicy | None = None,
        *,
        captioner: Captioner | None = None,
        text_reader: TextReader | None = None,
    ) -> None:
        if policy is not None and not isinstance(policy, AttachmentPolicy):
            raise ConfigurationError(f"policy must be an AttachmentPolicy, not {type(policy).__name__}")
        self.policy = policy if policy is not None else AttachmentPolicy()
        self._reader = AttachmentReader(self.policy, captioner, text_reader)
        describers = (None if it is None else it.configuration for it in (captioner, text_reader))
        self.configuration = repr((self.policy, *describers))

    def read(
        self, messages: Sequence[Message], store: ContentStore, recorder: Recorder = NULL_RECORDER
    ) -> ReadMessages:
        """The messages with text in place of every file and image; originals go into the store."""
        given = tuple(messages)
        full: list[Edit] = []
        shortened: list[Edit] = []
        visible: list[Edit] = []  # as texts, those that the drafter might see itself
        headers: dict[Place, int] = {}
        num_images = num_degraded = 0
        for index, message in enumerate(given):
            if not isinstance(message.content, tuple):
                continue
            for number, part in enumerate(message.content):
                attachment = read_part(part, self.policy.max_file_bytes) if part.type != "text" else None
                if attachment is None:
                    continue
                read = self._reader.read(attachment, store, recorder)
                edit = Edit(message=index, part=number, text=read.text)
                headers[index, number] = read.header_chars
                num_images += read.is_image
                num_degraded += read.problem is not None
                shortened.append(edit)
                is_visible = read.can_be_seen and self.policy.drafter_sees == "images"
                (visible if is_visible else full).append(edit)
        if not headers:
            return ReadMessages(given, given, headers)
        num_hidden = _num_hidden(len(visible), self.policy.max_seen_images)
        num_seen = len(visible) - num_hidden
        return ReadMessages(
            apply_edits(given, [*full, *visible[:num_hidden]]),
            apply_edits(given, shortened),
            headers,
            len(headers) - num_images,
            num_images,
            num_degraded,
            num_images - num_seen if self.policy.drafter_sees == "images" else 0,
        )

    def close(self) -> None:
        """Ends the converting process; a later file starts another one."""
        self._reader.converter.close()

    def __enter__(self) -> Attachments:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _num_hidden(num_images: int, most: int) -> int:
    """How many of the oldest images become text: half of `most` at once, as each change costs the prefix."""
    step = max(most // 2, 1)
    return min(-(-max(num_images - most, 0) // step) * step, num_images)
