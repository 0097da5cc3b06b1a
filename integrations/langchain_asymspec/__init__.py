"""AsymSpec for LangChain.

`ChatAsymSpec` is a chat model over an AsymSpec backend and needs langchain-core only.
`AsymSpecContextMiddleware` gives the model of a LangChain agent both views; it needs langchain, so it is
imported when it is first asked for. `AsymSpecContextEdit` and `AsymSpecSummarizer` are for LangChain's own
ContextEditingMiddleware and SummarizationMiddleware.
"""

from __future__ import annotations

import importlib
import typing

from . import _compat  # noqa: F401 - before anything of LangChain's is used: it checks the version
from .chat_model import ChatAsymSpec

if typing.TYPE_CHECKING:
    from .context_edit import AsymSpecContextEdit
    from .middleware import AsymSpecContextMiddleware
    from .summarizer import AsymSpecSummarizer

__all__ = ["AsymSpecContextEdit", "AsymSpecContextMiddleware", "AsymSpecSummarizer", "ChatAsymSpec"]

_LATER = {
    "AsymSpecContextEdit": "context_edit",
    "AsymSpecContextMiddleware": "middleware",
    "AsymSpecSummarizer": "summarizer",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    return found
