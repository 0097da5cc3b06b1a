"""AsymSpec for LangChain.

`ChatAsymSpec` is a chat model over an AsymSpec backend and needs langchain-core only.
"""

from __future__ import annotations

from . import _compat  # noqa: F401 - before anything of LangChain's is used: it checks the version
from .chat_model import ChatAsymSpec

__all__ = ["ChatAsymSpec"]
