"""Keeps control tokens out of what users write: a special token's name in a message is only text.

Every such name is hidden behind digits no user can guess while the template renders, so that whatever stands
in the rendered prompt as a special token was put there by the template.
"""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

__all__ = ["ControlTokens", "Disguise", "Hidden"]

NONCE_DIGITS, INDEX_DIGITS = 30, 6


class ControlTokens:
    """A tokenizer's special tokens, `further` ones among them, and how their names are encoded as text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, further: Iterable[str] = ()) -> None:
        self._tokenizer = tokenizer
        special = {i: t for i, t in tokenizer.added_tokens_decoder.items() if t.special and t.content}
        names = {token.content for token in special.values()} | set(further)
        self.pattern = re.compile(_any_of(names)) if names else None
        # Encoded now: the switch that splits special tokens is the tokenizer's own, and other threads use it.
        self._plain = {name: self._encode_plain(name) for name in names}
        self._encode("")  # turns the switch back
        anchors = ((i, t.content) for i, t in special.items() if not (t.lstrip or t.rstrip or t.single_word))
        self._anchor = next(anchors, None)

    def encode(self, text: str, disguise: Disguise) -> list[int]:
        """Token ids of a rendered text, the names hidden in it as plain text."""
        first, rest = disguise.split(text)
        ids = self._encode(first)
        for hidden, stretch in rest:
            ids += self._encode(hidden.text) if hidden.is_control else self._plain[hidden.text]
            ids += self._encode_behind(stretch) if stretch else []
        return ids

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _encode_behind(self, stretch: str) -> list[int]:
        """The ids of a text that begins nothing: some tokenizers write a space at a text's beginning."""
        if self._anchor is not None:
            token_id, name = self._anchor
            ids = self._encode(name + stretch)
            if ids[0] == token_id:
                return ids[1:]
        return self._encode(stretch)

    def _encode_plain(self, name: str) -> list[int]:
        anchor, whole, alone = (
            list(self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))
            for text in ("\n", "\n" + name, name)
        )
        plain = whole[len(anchor) :] if whole[: len(anchor)] == anchor else alone
        if plain == [self._tokenizer.convert_tokens_to_ids(name)] and len(name) > 1:
            # It is added, but not special, and never split.
            return self._encode_plain(name[:1]) + self._encode_plain(name[1:])
        return plain


class Hidden(NamedTuple):
    """What a mark stands for: a name that is only text, or control tokens that are encoded as such."""

    text: str
    is_control: bool


class Disguise:
    """What is hidden while one prompt is rendered."""

    def __init__(self, control: ControlTokens) -> None:
        self._pattern = control.pattern
        self._nonce = ""
        self._hidden: list[Hidden] = []

    def hide(self, text: str) -> str:
        """The text with every name hidden; text without one as it is."""
        if self._pattern is None or self._pattern.search(text) is None:
            return text
        return self._pattern.sub(lambda match: self._mark(Hidden(match.group(), is_control=False)), text)

    def admit(self, text: str) -> str:
        """A mark for a text of control tokens that stands where somebody's text does."""
        return self._mark(Hidden(text, is_control=True))

    def split(self, text: str) -> tuple[str, list[tuple[Hidden, str]]]:
        """The text up to the first mark; then what each mark stands for and the text behind it."""
        if not self._nonce:
            return text, []
        first, *rest = re.split(rf"{self._nonce}(\d{{{INDEX_DIGITS}}})", text)
        marks = (self._hidden[int(index)] for index in rest[::2])
        return first, list(zip(marks, rest[1::2], strict=True))

    def reveal(self, text: str) -> str:
        """The text with what is hidden in its place."""
        first, rest = self.split(text)
        return first + "".join(hidden.text + stretch for hidden, stretch in rest)

    def _mark(self, hidden: Hidden) -> str:
        if not self._nonce:
            self._nonce = f"{secrets.randbelow(10**NONCE_DIGITS):0{NONCE_DIGITS}}"
        if hidden not in self._hidden:
            self._hidden.append(hidden)
        return f"{self._nonce}{self._hidden.index(hidden):0{INDEX_DIGITS}}"


def _any_of(words: Iterable[str]) -> str:
    """A pattern of the words, longest first, that branches letter by letter: there may be a thousand."""
    tails: dict[str, set[str]] = defaultdict(set)
    for word in words:
        tails[word[:1]].add(word[1:])
    is_end = tails.pop("", None) is not None
    branches = [
        re.escape(letter) + (_any_of(rest) if rest != {""} else "") for letter, rest in sorted(tails.items())
    ]
    if not branches:
        return ""
    pattern = branches[0] if len(branches) == 1 and not is_end else f"(?:{'|'.join(branches)})"
    return pattern + "?" if is_end else pattern
