"""In what an answer is written: the vocabulary of the model that emits it."""

from __future__ import annotations

from dataclasses import dataclass

from .recorded import TokenTexts
from .text import Decodes

__all__ = ["Writing"]


@dataclass(frozen=True, slots=True)
class Writing:
    """How an answer's ids become text, how many ids count, and which of them end the answer."""

    tokenizer: Decodes
    texts: TokenTexts
    vocab_size: int
    eos_token_ids: frozenset[int]
