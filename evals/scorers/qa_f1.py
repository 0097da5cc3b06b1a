"""F1 over words, by LongBench's rules for English questions.

Source: THUDM/LongBench, LongBench/metrics.py (`normalize_answer`, `qa_f1_score`) and eval.py (`scorer`).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

__all__ = ["best_f1", "f1", "normalized"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalized(text: str) -> str:
    """The text as it is compared: lower case, then ASCII punctuation deleted, then articles, then spaces.

    The order matters: punctuation leaves no space behind (`Eiffel-Tower` is one word), and articles go after
    it (`a.` is an article by then).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the words, each counted as often as it occurs; in [0, 1].

    0 where no word is shared, so also where either side normalises to nothing.
    """
    words, gold_words = normalized(answer).split(), normalized(gold).split()
    num_shared = sum((Counter(words) & Counter(gold_words)).values())
    if num_shared == 0:
        return 0.0
    precision, recall = num_shared / len(words), num_shared / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def best_f1(answer: str, golds: Iterable[str]) -> float:
    """The best F1 against any gold answer; 0 where there is none."""
    return max((f1(answer, gold) for gold in golds), default=0.0)
