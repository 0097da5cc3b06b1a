"""Patterns of schemas on texts that a model wrote, in a time that grows with the text and not faster.

The patterns are the tool author's, the text is not. Most patterns run in the engine of pydantic, which never
goes back. Those that need it to (lookarounds, references to groups) run in Python's, whose time has no limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

__all__ = ["has_pattern"]


def has_pattern(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text, as JSON schema means it."""
    adapter = _linear(pattern)
    if adapter is None:
        return re.search(pattern, text) is not None
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _linear(pattern: str) -> TypeAdapter[str] | None:
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError:
        return None
