"""JSON that a model wrote, to values: strictly where that works, repaired where not, and always told apart.

Strict means what JSON means, with raw line ends inside of texts allowed: no key twice, no NaN, no number that
cannot be held. Repairs are json-repair's (https://github.com/mangiucugna/json_repair).
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from dataclasses import dataclass
from typing import Any

from ..errors import MissingDependencyError

__all__ = ["NotJSONError", "Read", "extent", "read_strictly", "repaired"]

# The repairer takes time that grows with the square of the brackets: this many cost half a second.
MAX_REPAIR_BRACKETS = 500
MAX_REPAIR_CHARS = 100_000
MAX_DEPTH = 64
DEPTH_CHARS = 2_000  # looked through for too many brackets before a parser goes into them
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
MAX_DIGITS = 4_000  # of one integer, as Python's own conversion refuses somewhat more
_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_TOKEN = re.compile(rf"""["'{{}}\[\]]|{_COMMENT}""", re.DOTALL)
_AFTER_STRING = re.compile(r"\s*(?:[,:}\]]|//|/\*|\Z)")
_STRING = r'"(?:[^"\\]|\\.)*"?'
_BRACKETS = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_COMMENTS = re.compile(rf"{_STRING}|{_COMMENT}", re.DOTALL)
_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")


class NotJSONError(ValueError):
    """A text is no JSON, the message says why; `is_repairable`: because of how it is written."""

    def __init__(self, message: str, *, is_repairable: bool = False) -> None:
        super().__init__(message)
        self.is_repairable = is_repairable


@dataclass(frozen=True, slots=True)
class Read:
    """A value, the place behind it in the text, and what was changed to read it (empty: nothing)."""

    value: Any
    end: int
    changes: tuple[str, ...] = ()


def read_strictly(text: str, start: int) -> Read:
    """The value that begins at `start`. Raises NotJSONError."""
    _check_depth(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError as error:
        raise NotJSONError(_TOO_DEEP) from error
    except ValueError as error:
        is_repairable = isinstance(error, json.JSONDecodeError)
        raise NotJSONError(str(error), is_repairable=is_repairable) from error
    return Read(_plain(value), end)


def _check_depth(text: str, start: int) -> None:
    """Raises NotJSONError where the value at `start` goes too deep at once, before a parser follows it."""
    depth = 0
    for token in _BRACKETS.finditer(text, start, start + DEPTH_CHARS):
        if token[0] in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise NotJSONError(_TOO_DEEP)
        elif token[0] in "}]":
            depth -= 1
            if depth <= 0:
                return


def extent(text: str, start: int) -> int | None:
    """The place behind the last bracket of what begins at `start`; None where it is not closed.

    It is read loosely: comments are passed over, and a quote ends a text only where one may end.
    """
    depth, at = 0, start
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        if token[0] in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                return None
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return at
        elif token[0] in "\"'":
            closing = _text_end(text, at, token[0])
            if closing is None:
                return None
            at = closing
    return None


def _text_end(text: str, at: int, quote: str) -> int | None:
    """The place behind the quote that ends the text which begins at `at`."""
    while (found := text.find(quote, at)) >= 0:
        num_escapes = found - len(text[at:found].rstrip("\\")) - at
        at = found + 1
        if num_escapes % 2 == 0 and _AFTER_STRING.match(text, at):
            return at
    return None


def repaired(text: str, problem: str) -> Read:
    """The value of a whole text that is no strict JSON for `problem`.

    Comments and commas before closing brackets are left out, where that is all it takes; Python's notation of
    a value is taken as it stands. Raises NotJSONError where repairing fails or could take too long,
    MissingDependencyError where json-repair is not installed.
    """
    if len(text) > MAX_REPAIR_CHARS or text.count("{") + text.count("[") > MAX_REPAIR_BRACKETS:
        raise NotJSONError(f"{problem}; it is too long to be repaired")
    plainly = _without_additions(text)
    if plainly is not None:
        return plainly
    try:
        value = _python_value(text)
    except (SyntaxError, TypeError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, NotJSONError):
            raise
    else:
        return Read(_plain(value), len(text), ("read as Python's notation of a value",))
    try:
        import json_repair
    except ImportError as error:
        raise MissingDependencyError("json_repair", "json") from error
    try:
        pair: Any = json_repair.loads(text, skip_json_loads=True, logging=True)
    except (ValueError, RecursionError) as error:
        raise NotJSONError(f"{problem}; it could not be repaired ({error})") from error
    value, log = pair
    said = dict.fromkeys(entry["text"] for entry in log if isinstance(entry, dict) and "text" in entry)
    return Read(_plain(value), len(text), (f"repaired: {problem}", *said))


def _without_additions(text: str) -> Read | None:
    """The text's value without what JSON has not: comments, and commas before closing brackets."""
    changes: list[str] = []
    shorter = text
    for pattern, change in (
        (_COMMENTS, "comments were left out"),
        (_COMMAS, "a comma before a closing bracket was left out"),
    ):
        before = shorter
        shorter = pattern.sub(lambda token: token[0] if token[0].startswith('"') else "", before)
        if shorter != before:
            changes.append(change)
    try:
        read = read_strictly(shorter, 0)
    except NotJSONError as error:
        if error.is_repairable:
            return None
        raise
    return Read(read.value, len(text), tuple(changes)) if read.end == len(shorter.rstrip()) else None


def _python_value(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (SyntaxWarning, DeprecationWarning))  # of odd escapes
        tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            _check_keys([key.value for key in node.keys if isinstance(key, ast.Constant)])
    return ast.literal_eval(tree)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


def _check_keys(keys: list[Any]) -> None:
    """Of two values under one key a parser would keep the last without a word."""
    if len(set(keys)) < len(keys):
        twice = str(next(key for key in keys if keys.count(key) > 1))
        raise NotJSONError(f"the key {twice[:80]!r} stands twice in one object")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits; the limit is {MAX_DIGITS:,}")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is beyond what a number can hold")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_pairs,
    parse_int=_integer,
    parse_float=_number,
    parse_constant=_no_constant,
)


def _plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's types. Raises NotJSONError for what they cannot hold."""
    if depth > MAX_DEPTH:
        raise NotJSONError(_TOO_DEEP)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotJSONError("the keys of an object must be texts")
        for key in value:
            _check_text(key)
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, str):
        _check_text(value)
        return value
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if value is None or is_number:
        return value
    raise NotJSONError(f"{type(value).__name__} values are no JSON")


def _check_text(text: str) -> None:
    """Half of a pair that stands for one character can be neither encoded nor sent."""
    if not text.isascii() and (half := _HALF.search(text)):
        raise NotJSONError(f"a text has \\u{ord(half[0]):x}, one half of a character")
