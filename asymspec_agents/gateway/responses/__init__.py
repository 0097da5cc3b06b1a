"""OpenAI's Responses API over chat completions: a pure translation of bodies, answers and streams."""

from .translation import ResponsesTranslation

__all__ = ["ResponsesTranslation"]
