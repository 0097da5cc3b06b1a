"""When a request is sent again, and after which pause."""

from __future__ import annotations

import email.utils
import random
import time

__all__ = ["RETRIED_STATUSES", "pause_s"]

RETRIED_STATUSES = frozenset({429, 503})
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0


def pause_s(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait after an attempt, the first being 0, before the next one.

    That is what the server asks for, else twice as long each time, partly at random so that clients spread;
    never above LONGEST_PAUSE_S.
    """
    asked = None if retry_after is None else _seconds(retry_after)
    if asked is not None:
        return min(asked, LONGEST_PAUSE_S)
    return min(FIRST_PAUSE_S * 2.0 ** min(attempt, 10), LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)


def _seconds(retry_after: str) -> float | None:
    """A Retry-After header's seconds from now (RFC 9110, 10.2.3: a number or a date), None for neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
