"""Which tool-call formats a model uses, by its chat template and its tokens."""

from __future__ import annotations

from collections.abc import Collection

from .base import ToolFormat
from .deepseek import DEEPSEEK
from .json_formats import HERMES, MISTRAL, PIPED, PYTHON_TAG
from .pythonic import PYTHONIC, TOOL_CODE
from .xml_formats import FUNCTION, GLM

__all__ = ["FORMATS", "formats_of"]

# Where two formats share an opening, the one that asks for more comes first.
FORMATS = (FUNCTION, GLM, HERMES, MISTRAL, PYTHON_TAG, PIPED, DEEPSEEK, TOOL_CODE, PYTHONIC)


def formats_of(template: str, added_tokens: Collection[str]) -> tuple[ToolFormat, ...]:
    """The formats the template or the tokens speak of; Hermes, the most common, where there are none."""
    found = tuple(
        fmt for fmt in FORMATS if any(sign in template or sign in added_tokens for sign in fmt.signs)
    )
    return found or (HERMES,)
