"""JSON responses in ASCII: lone surrogates, which JSON's \\ud800 escapes bring in, have no UTF-8."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

__all__ = ["ASCIIResponse"]


class ASCIIResponse(JSONResponse):
    """A JSON response that holds any Python string."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
