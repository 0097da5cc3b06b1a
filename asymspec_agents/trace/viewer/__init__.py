"""The trace viewer: a story as one self-contained page, in a file or served to this machine."""

from .data import comparison_data, story_data
from .page import render_page
from .serving import PageServer

__all__ = ["PageServer", "comparison_data", "render_page", "story_data"]
