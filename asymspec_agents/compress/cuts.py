"""Where a text may be cut: how much of it fits a number of tokens, and which cuts split nothing visible.

`is_grapheme_boundary` follows Unicode's extended grapheme clusters (UAX #29) on the safe side: it never
allows a cut inside a cluster, and forbids a few that the standard would allow.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

__all__ = ["is_grapheme_boundary", "longest_fit", "snap_back", "snap_forward"]

_ZERO_WIDTH_JOINER = "\u200d"
_EXTENDING = frozenset(
    [_ZERO_WIDTH_JOINER, "\u200c", "\uff9e", "\uff9f"]
    + [chr(code) for code in range(0x1F3FB, 0x1F400)]  # skin tones
    + [chr(code) for code in range(0xE0020, 0xE0080)]  # the tags of subdivision flags
)
_PREPENDED = frozenset(
    [chr(code) for code in (0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD, 0x1193F, 0x11941)]
    + [chr(code) for code in (*range(0x600, 0x606), 0x111C2, 0x111C3, 0x113D1, 0x11D46, 0x11F02)]
    + [chr(code) for code in (0x11A3A, *range(0x11A84, 0x11A8A))]
)
_REGIONAL_INDICATORS = "".join(chr(code) for code in range(0x1F1E6, 0x1F200))
_VIRAMA_CLASS = 9
_DIGITS_AND_POINT = frozenset("0123456789.")
_TOKEN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
MAX_TOKEN_CHARS = 80  # a longer run of letters and digits may be cut anywhere


def is_grapheme_boundary(text: str, index: int) -> bool:
    """Whether cutting between `text[index - 1]` and `text[index]` splits no character a reader sees."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if after < "\u0300":  # nothing below combines with what precedes it, but for a line feed
        return not (before == "\r" and after == "\n") and before not in _PREPENDED
    if after in _EXTENDING or unicodedata.category(after)[0] == "M":
        return False
    if before == _ZERO_WIDTH_JOINER or before in _PREPENDED or unicodedata.combining(before) == _VIRAMA_CLASS:
        return False
    if "\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff":
        return False
    if after in _REGIONAL_INDICATORS and before in _REGIONAL_INDICATORS:  # flags are pairs
        return (index - len(text[:index].rstrip(_REGIONAL_INDICATORS))) % 2 == 0
    is_later_jamo = "\u1100" <= after <= "\u11ff" or "\ua960" <= after <= "\ua97f" or after >= "\ud7b0"
    is_hangul = "\u1100" <= before <= "\u11ff" or "\ua960" <= before <= "\ud7ff"
    return not (is_later_jamo and is_hangul and not after >= "\ud800")


def snap_back(text: str, index: int, lowest: int) -> int:
    """The last good cut in `[lowest, index]`: after a line, else after a word, else a grapheme boundary.

    A line or word end counts only in the last quarter of the span (a word end in its last 200 characters), so
    that little of what fits is given up.
    """
    if index >= len(text):
        return len(text)
    window = max(lowest, index - (index - lowest) // 4)
    line_end = text.rfind("\n", window, index)
    if line_end >= 0:
        return line_end + 1
    for cut in range(index, max(window, index - 200), -1):
        if text[cut].isspace() or text[cut - 1].isspace():
            return _boundary_back(text, cut, lowest)
    for cut in range(index, max(lowest, index - MAX_TOKEN_CHARS), -1):
        if not _splits_token(text, cut):
            return _boundary_back(text, cut, lowest)
    return _boundary_back(text, index, lowest)


def snap_forward(text: str, index: int, highest: int) -> int:
    """The first good cut in `[index, highest]`: before a line, else a word, else a grapheme boundary."""
    if index <= 0:
        return 0
    window = min(highest, index + (highest - index) // 4)
    if text[index - 1 : index] == "\n":
        return index
    line_end = text.find("\n", index, window)
    if line_end >= 0:
        return line_end + 1
    for cut in range(index, min(window, index + 200)):
        if text[cut].isspace() or text[cut - 1].isspace():
            return _boundary_forward(text, cut, highest)
    for cut in range(index, min(highest, index + MAX_TOKEN_CHARS)):
        if not _splits_token(text, cut):
            return _boundary_forward(text, cut, highest)
    return _boundary_forward(text, index, highest)


def _splits_token(text: str, cut: int) -> bool:
    """Whether a cut would leave part of a number, name or word that reads like a whole one."""
    before, after = text[cut - 1], text[cut]
    if before in _TOKEN and after in _TOKEN:
        return True
    is_in_decimal = "." in (before, after) and before in _DIGITS_AND_POINT and after in _DIGITS_AND_POINT
    return is_in_decimal or (before in "+-" and after in _DIGITS_AND_POINT)


def _boundary_back(text: str, index: int, lowest: int) -> int:
    while index > lowest and not is_grapheme_boundary(text, index):
        index -= 1
    return index


def _boundary_forward(text: str, index: int, highest: int) -> int:
    while index < highest and not is_grapheme_boundary(text, index):
        index += 1
    return index


def longest_fit(num_tokens: Callable[[int], int], length: int, max_tokens: int) -> int:
    """A length in `[0, length]` whose `num_tokens` is at most `max_tokens`, and nearly the longest such.

    "Nearly": within 2% of the tokens. `num_tokens(n)` must be 0 at 0 and grow with n (small dips do no harm);
    it is called on lengths near the answer only, so the cost follows `max_tokens`, not `length`.
    """
    low, low_tokens, high = 0, 0, length + 1  # low fits; high does not, or lies beyond the end
    guess = min(length, 4 * max(max_tokens, 0))
    while high - low > 1 and max_tokens - low_tokens > max_tokens // 50:
        guess = min(max(guess, low + 1), high - 1)
        tokens = num_tokens(guess)
        span = (guess - low) / max(tokens - low_tokens, 1)  # characters a token
        if tokens <= max_tokens:
            low, low_tokens = guess, tokens
            guess = low + max(int((max_tokens - tokens) * span), 1)
        else:
            high = guess
            guess = low + int((max_tokens - low_tokens) * span)
            if guess >= low + (high - low) * 0.95:  # interpolation stalls where tokens are dense at the end
                guess = (low + high) // 2
    return low
