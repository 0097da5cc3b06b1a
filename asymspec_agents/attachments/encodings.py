"""Which of the older encodings some bytes are written in, if they are written words at all.

`charset-normalizer` says which encodings make sense of the bytes. Several often do, above all of a short
text, and then the commonest is taken in which letters stand beside letters and signs beside spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["guessed", "is_filling"]

# The commonest first: the order decides between those that fit a text equally.
_COMMON = (
    *("cp1252", "cp1251", "cp1250", "gb18030", "cp932", "euc_kr", "big5", "euc_jp", "koi8_r", "cp1253"),
    *("cp1254", "cp1255", "cp1256", "cp874", "cp1257", "iso8859_2", "iso8859_15", "iso8859_5", "iso8859_7"),
    *("iso8859_9", "cp866", "cp850", "cp852", "cp437", "mac_roman"),
    *("cp855", "mac_cyrillic", "cp949", "johab", "iso8859_6"),
)
_KANA, _HANGUL = re.compile("[\u3041-\u30fa]"), re.compile("[\uac00-\ud7a3]")
_SCRIPTS = {  # whose share of the characters tells one East Asian encoding from another
    "cp932": (_KANA, 0.1),
    "euc_jp": (_KANA, 0.1),
    "euc_kr": (_HANGUL, 0.9),
}
_LINES = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")
_IN_WORDS = "\u2019\u2018'\u00b7-\u00a0\u00ad"
_OTHER_SCRIPTS, _EAST = "\u0250", "\u2e80"  # behind the Latin letters, and behind those of all alphabets
_HALF_WIDTH, _HALF_WIDTH_END = "\uff61", "\uff9f"  # what bytes in a row look like
_RUNS = re.compile(rb"([\x80-\xff]{1,2})\1{5,}")
_MOST_BYTES = 8_192
_SHORT_BYTES = 8  # so few bytes beyond ASCII tell nothing of a language
_LEAST_FIT = 0.9
_FIT_WEIGHT = 3
_SLACK = 0.03  # scores so close are the same
_WESTERN = 0.1  # ahead for the commonest, where the letters are those of Western Europe
_LATIN_SHARE = 0.4  # of letters beyond ASCII, in the texts of Western Europe
_ASCII_SHARE = 0.7  # of a text that is shown even where nothing fits


def guessed(data: bytes) -> str | None:
    """The most likely encoding, None where the bytes are no words in any. `data` has no zero bytes."""
    sample = b"".join(_told(data))
    num_high = sum(byte > 0x7F for byte in sample)
    if is_filling(data):
        return None
    is_western = _is_western(sample)
    if is_western and num_high <= _SHORT_BYTES and _fit(sample, "cp1252") == 1:
        return "cp1252"
    scores = _scores(sample, is_western)
    if scores:
        best = max(scores.values())
        return min((name for name, score in scores.items() if score >= best - _SLACK), key=_COMMON.index)
    return "cp1252" if sum(byte < 0x80 for byte in data) >= _ASCII_SHARE * len(data) else None


def is_filling(data: bytes) -> bool:
    """Whether most of it is one value beyond ASCII over and over, as in pixels and padding."""
    return sum(len(run.group()) for run in _RUNS.finditer(data)) * 2 > len(data)


def _told(data: bytes) -> Iterator[bytes]:
    """The lines that tell something, which are those with bytes beyond ASCII."""
    left = _MOST_BYTES
    for line in _LINES.finditer(data):
        if len(line.group()) > left:
            if left == _MOST_BYTES:  # one long line: from its first byte that tells something
                start = next(at for at, byte in enumerate(data) if byte > 0x7F)
                yield data[max(0, start - 64) :][:left]
            return
        left -= len(line.group())
        yield line.group()


def _scores(sample: bytes, is_western: bool) -> dict[str, float]:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        matches = {}
    else:
        matches = {
            name: match.coherence - match.chaos
            for match in from_bytes(sample, cp_isolation=list(_COMMON), preemptive_behaviour=False)
            for name in match.could_be_from_charset
            if name in _COMMON
        }
    matches.setdefault("cp1252", 0.0)
    scores = dict(_fitting(sample, matches, is_western))
    if not scores:  # a broken place makes all encodings impossible that could be wrong
        scores = dict(_fitting(sample, dict.fromkeys(_COMMON, 0.0), is_western))
    if "cp1252" in scores:
        scores["cp1252"] += _WESTERN
    return scores


def _fitting(sample: bytes, likelihoods: dict[str, float], is_western: bool) -> Iterator[tuple[str, float]]:
    for name, likelihood in likelihoods.items():
        fit = _fit(sample, name)
        if fit >= _LEAST_FIT and (name != "cp1252" or is_western):
            yield name, _FIT_WEIGHT * fit + likelihood + _script_share(sample, name)


def _script_share(sample: bytes, name: str) -> float:
    if name not in _SCRIPTS:
        return 0.0
    script, least = _SCRIPTS[name]
    letters = [character for character in sample.decode(name, "replace") if character.isalpha()]
    eastern = "".join(character for character in letters if character >= _EAST)
    share = len(script.findall(eastern)) / max(1, len(eastern))
    return share if share >= least else 0.0


def _is_western(sample: bytes) -> bool:
    letters = [character for character in sample.decode("cp1252", "replace") if character.isalpha()]
    return sum(character > "\x7f" for character in letters) <= max(1, _LATIN_SHARE * len(letters))


def _fit(sample: bytes, name: str) -> float:
    """The share of characters beyond ASCII that stand where such characters stand in written words."""
    text = sample.decode(name, "replace").removesuffix("\ufffd")
    places = [at for at, character in enumerate(text) if character > "\x7f"]
    return sum(_fits(text, at) for at in places) / max(1, len(places))


def _fits(text: str, at: int) -> bool:
    before, character, after = text[at - 1 : at], text[at], text[at + 1 : at + 2]
    category = unicodedata.category(character)
    if category[0] == "C" or character == "\ufffd" or _HALF_WIDTH <= character <= _HALF_WIDTH_END:
        return False
    if category[0] in "LM":
        return _letter_fits(before, character, after)
    if character in _IN_WORDS or character >= _EAST or category in ("Nd", "Pd"):
        return True
    is_inside_word = before.isalpha() and after.isalpha()
    is_among_signs = all(beside > "\x7f" and not beside.isalpha() for beside in (before, after))
    return not (is_inside_word or is_among_signs)


def _letter_fits(before: str, character: str, after: str) -> bool:
    if before == character == after:
        return False
    is_beside = [neighbour.isascii() and neighbour.isalpha() for neighbour in (before, after)]
    if character >= _EAST:
        return not all(is_beside)
    if character >= _OTHER_SCRIPTS and any(is_beside):
        return False
    is_inside = before.islower() or (before.isupper() and after.islower())
    return not (character.isupper() and is_inside)  # begins a word, or all of it is in capitals
