"""Whether an answer mentions what BFCL's memory questions ask for.

Source: `eval_checker/agentic_eval/agentic_checker.py` of bfcl-eval 2026.3.23 (Apache-2.0), written anew and
compared with it in the tests: answer and allowed answers are put in lower case without `, . / - _ * ^ ( )`
and with single quotes as double ones; an allowed answer must stand in the answer between word boundaries.
White space is compared as it is, whatever the official docstring says. So an allowed answer that begins or
ends with a sign such as $ is found only with a letter or digit next to it, as officially.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["mentions"]

_IGNORED = re.compile(r"[,./\-_*^()]")


def mentions(answer: str, allowed: Sequence[str]) -> bool:
    """Whether the answer mentions one of the allowed ones; an empty answer mentions nothing."""
    text = _standardised(answer)
    if not text.strip():
        return False
    return any(re.search(rf"\b{re.escape(_standardised(one))}\b", text) is not None for one in allowed)


def _standardised(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
