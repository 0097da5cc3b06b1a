"""What tells an image in words: a captioner says what it shows, a text reader what is written in it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Captioner", "TextReader"]


class Captioner(Protocol):
    """Says what an image shows.

    `png` is an upright RGB image of at most 2,048 pixels a side. May raise anything and take its time: the
    caller cuts it off. Called from several threads at once.
    """

    @property
    def configuration(self) -> str:
        """Name, version and parameters as a stable string, without secrets."""

    def describe(self, png: bytes) -> str:
        """A description in a few sentences."""


class TextReader(Protocol):
    """Reads the text in an image; the same promises as a Captioner's."""

    @property
    def configuration(self) -> str:
        """Name, version and parameters as a stable string."""

    def read(self, png: bytes) -> str:
        """The lines from top to bottom, empty where there are none."""
