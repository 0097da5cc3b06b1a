"""Spans of a text that must come through byte for byte or not at all, in every form above head and tail.

What it means where text is left out: extraction keeps sentences, lines and rows whole, so what they hold is
whole; a compressor that drops single words (LLMLingua-2) keeps these spans. Spans of dropped text go with it,
but those that speak for themselves (addresses, paths, identifiers, hashes, error names) are listed at the
end of prose where room was set aside (`mentions`); a number without its sentence would say nothing.

The work is linear in the text: it is read token by token (what lies between white space), and of a long token
only the beginning is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["PROTECTION", "mentions", "protected_spans"]

PROTECTION = "spans/1"  # what configurations call protected_spans; another number where it gives other spans

_MAX_TOKEN = 400  # characters of a token that are judged; the rest of a longer one is data
_MAX_FENCE = 2_000  # characters of a code fence kept whole: more would leave no room for anything else
_MAX_MENTION = 120

_TOKEN = re.compile(r"\S+")
_EDGE_START = "([{<\"'“‘«,;"
_EDGE_END = ")]}>\"'”’»,;:.!?"
_MARKS = re.compile(r"[0-9/\\@_`#]|[A-Za-z](?:Error|Exception|Warning)$|[a-z][A-Z]|n['’]t$")
_MARKED = re.compile(r"(?<!\S)[^\s0-9/\\@_]*[0-9/\\@_]\S*")  # a token with one of these marks
_ERROR_END = re.compile(r"(?:Error|Exception|Warning|Fault)\b")
# Each pattern is matched against one token of at most 400 characters, from its start.
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{1,15}://\S+|www\.\S+\.\S+|mailto:\S+")
_MAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}$")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w.@%+~-]+(?:/[\w.@%+~-]*)*$|[A-Za-z]:\\\S+|[\w.@-]+(?:/[\w.@-]+)+\.\w{1,8}$"
)
_HEX = re.compile(
    r"(?:sha\d{1,3}:|0x)?[0-9a-fA-F]{7,128}$|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
)
_IDENTIFIER = re.compile(
    r"(?=[^0-9]{0,60}[0-9])(?=[^A-Za-z]{0,60}[A-Za-z])[A-Za-z0-9][\w.:#/-]{2,100}$"  # letters and digits
    r"|#[0-9]{2,}$|[A-Za-z_]\w{0,60}_\w{1,60}(?:\(\))?$"  # an issue's number, snake_case
)
_ERROR = re.compile(r"(?:\w{1,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Warning|Fault)$")
_NUMBER = re.compile(r"[-+±~≈<>≤≥$€£¥]{0,2}[0-9][0-9.,:/'–-]{0,40}[%°A-Za-zµ/²³$€£¥]{0,12}$")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?:T[0-9:.,]{2,18}(?:Z|[+-][0-9:]{2,6})?)?$|[0-9]{1,2}:[0-9]{2}\S{0,8}$"
)
_NEGATION = re.compile(
    r"(?:no|not|never|none|neither|nor|nobody|nothing|nowhere|without|cannot|except|unless|nicht|kein\w?|ohne|"
    r"pas|jamais|sans|no|nunca|sin|не|нет)$|\w{2,10}n['’]t$",
    re.I,
)
_MONTH = re.compile(
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?,?$|(?:a|p)\.?m\.?$|UTC$|GMT$|CES?T$"
)
_UNIT = re.compile(
    r"(?:[kMGTmµn]?(?:s|m|g|B|b|W|V|A|Hz|L|l|mol|Pa|J|cal|Wh|iB)|[KMGT]iB|[kM]?bit/s|[KMG]?bps|km/h|mph|[kc]m|mm|"
    r"ms|min|h|hours?|days?|weeks?|months?|years?|minutes?|seconds?|percent|%|°[CF]?|€|£|USD|EUR|GBP|CHF|JPY|dollars?|"
    r"euros?|million|billion|thousand|rpm|fps|px|pt|ppm|dB|kg|lbs?|oz|ft|in|miles?|tokens?|bytes?)$"
)
_FENCE = re.compile(r"^(?:```|~~~)[^\n]*$", re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_KEY = re.compile(r'"[^"\\\n]{1,80}"(?=[ \t]{0,4}:)')


def protected_spans(text: str) -> list[tuple[int, int]]:
    """The spans as (start, end), in order and apart from each other.

    Identifiers, UUIDs, hashes, numbers with their units, dates, times, paths, URLs, e-mail addresses, inline
    code, code fences of up to 2,000 characters, JSON keys, negations, error names.
    """
    found = [*_token_spans(text), *_fences(text)]
    if "`" in text:
        found += [match.span() for match in _INLINE.finditer(text)]
    if '":' in text or '" :' in text:
        found += [match.span() for match in _KEY.finditer(text)]
    found.sort()
    apart: list[tuple[int, int]] = []
    for start, end in found:
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def mentions(text: str) -> list[str]:
    """What speaks for itself without its sentence, each once: addresses and paths, then identifiers, hashes
    and error names, in their order."""
    first: dict[str, None] = {}
    second: dict[str, None] = {}
    for match in _MARKED.finditer(text):
        if match.end() - match.start() > _MAX_TOKEN:
            continue
        token = _trimmed(match.group())[0]
        if not 3 < len(token) <= _MAX_MENTION or _NUMBER.match(token) or _DATE.match(token):
            continue
        if _URL.match(token) or _MAIL.match(token) or _PATH.match(token):
            first[token] = None
        elif _HEX.match(token) or _IDENTIFIER.match(token):
            second[token] = None
    for match in _ERROR_END.finditer(text):
        start = max(match.start() - _MAX_MENTION, 0)
        name = text[start : match.end()].split()[-1].lstrip(_EDGE_START)
        if _ERROR.match(name):
            first[name] = None
    return [*first, *second]


def _token_spans(text: str) -> Iterator[tuple[int, int]]:
    pending: tuple[int, int] | None = None  # a number, waiting for its unit
    for match in _TOKEN.finditer(text):
        raw = match.group()[:_MAX_TOKEN]
        token, offset = _trimmed(raw)
        start = match.start() + offset
        end = start + len(token)
        if pending is not None:
            near = text[pending[1] : start]
            if near == " " and (_UNIT.match(token) or _MONTH.match(token)):
                pending = (pending[0], end)
                continue
            yield pending
            pending = None
        if not token:
            continue
        if _NUMBER.match(token) or _DATE.match(token):
            pending = (start, end)
        elif _MONTH.match(token) and token[0].isupper() and len(token) > 2:
            follows = text[end : end + 4].lstrip(" ,.")
            if follows[:1].isdigit():
                yield (start, end)
        elif _NEGATION.match(token) or (_MARKS.search(token) and _is_name(token)):
            yield (start, end)
    if pending is not None:
        yield pending


def _is_name(token: str) -> bool:
    return any(
        pattern.match(token) is not None for pattern in (_URL, _MAIL, _PATH, _HEX, _IDENTIFIER, _ERROR)
    )


def _trimmed(raw: str) -> tuple[str, int]:
    """The token without brackets, quotes and stops around it, and how many characters went in front."""
    inner = raw.lstrip(_EDGE_START)
    token = inner.rstrip(_EDGE_END)
    if token.count("(") > token.count(")") and inner[len(token) :].startswith(")"):
        token += ")"
    return token, len(raw) - len(inner)


def _fences(text: str) -> Iterator[tuple[int, int]]:
    opened = -1
    for match in _FENCE.finditer(text):
        if opened < 0:
            opened = match.start()
        else:
            if match.end() - opened <= _MAX_FENCE:
                yield opened, match.end()
            opened = -1
