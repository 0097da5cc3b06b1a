"""AsymSpec for LangChain.

`ChatAsymSpec` is a chat model over an AsymSpec backend and needs langchain-core only.
"""

from __future__ import annotations

from .chat_model import ChatAsymSpec

__all__ = ["ChatAsymSpec"]
