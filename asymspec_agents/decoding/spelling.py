"""What the tokens of a vocabulary spell, byte by byte, and how a text is spelled in its tokens.

Vocabularies write bytes in two alphabets: GPT-2's, where every byte has a printable letter of its own, and
SentencePiece's, where a space is ▁ and a byte without a character is <0xNN>. Read as bytes, tokens of either
kind can be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ..errors import IncompatibleModelsError

__all__ = ["Speller", "Vocabulary"]

Alphabet = Literal["byte_level", "sentencepiece"]

SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
NAMED_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
PROBE = "Xylograph"  # an answer that no template writes itself


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of one tokenizer.

    `spellings`: the bytes of each id, None where no token has it; of a special token those of its name.
    `named_bytes` are tokens such as <0x41>, which a tokenizer uses only where no other spells the byte.
    `end_of_turn` ends an assistant's message in the chat template; `end_of_text` are the other ids that end
    an answer. `fingerprint` tells vocabularies with other tokens, ids or special tokens apart.
    """

    name: str
    alphabet: Alphabet
    spellings: tuple[bytes | None, ...] = field(repr=False)
    special: frozenset[int] = field(repr=False)
    named_bytes: frozenset[int] = field(repr=False)
    end_of_turn: int | None
    end_of_text: tuple[int, ...]
    fingerprint: str

    @classmethod
    def of(cls, tokenizer: Any, *, name: str = "", eos_token_ids: Iterable[int] = ()) -> Vocabulary:
        """The vocabulary of a transformers tokenizer; `eos_token_ids` are those of its model's configuration.

        Raises IncompatibleModelsError for a tokenizer whose tokens do not stand for bytes.
        """
        name = name or str(getattr(tokenizer, "name_or_path", "") or "the tokenizer")
        alphabet = _alphabet(tokenizer, name)
        added: Mapping[int, Any] = tokenizer.added_tokens_decoder
        tokens: dict[str, int] = tokenizer.get_vocab()
        spellings: list[bytes | None] = [None] * (max(tokens.values(), default=-1) + 1)
        for token, number in tokens.items():
            spellings[number] = token.encode() if number in added else _spelled(token, alphabet)
        special = frozenset(number for number, token in added.items() if token.special)
        turn = _end_of_turn(tokenizer, {added[number].content: number for number in special})
        ends = {number for number in (tokenizer.eos_token_id, *eos_token_ids) if number is not None}
        return cls(
            name=name,
            alphabet=alphabet,
            spellings=tuple(spellings),
            special=special,
            named_bytes=_named_bytes(tokens, alphabet),
            end_of_turn=turn,
            end_of_text=tuple(sorted(ends - {turn})),
            fingerprint=_fingerprint(spellings, special),
        )

    def __len__(self) -> int:
        return len(self.spellings)

    def spelling(self, token: int) -> bytes:
        """The token's bytes; none where no token has the id."""
        found = self.spellings[token] if 0 <= token < len(self.spellings) else None
        return found or b""

    def spelled(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a sequence of tokens."""
        return b"".join(self.spelling(token) for token in tokens)


class Speller:
    """Spells bytes in a vocabulary's ordinary tokens, as its tokenizer would a text that begins nothing.

    Never a special token, whatever the text says, and nothing normalised: `spelled(ids(data)) == data`, but
    for bytes that no token has (`missing_bytes`), in whose place a replacement character stands.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._tokenizer = _raw_tokenizer(tokenizer, vocabulary.alphabet)
        missing = [f"0x{byte:02X}" for byte in REPLACEMENT.encode() if byte not in self._byte_tokens]
        if missing:
            raise IncompatibleModelsError(
                f"{vocabulary.name} has no tokens for the bytes {', '.join(missing)}, so that it cannot read "
                "every text; choose a drafter whose tokenizer has a token for each byte"
            )

    @cached_property
    def _byte_tokens(self) -> dict[int, int]:
        """The token of each byte that has one, the lowest id of several."""
        tokens: dict[int, int] = {}
        for number, spelling in enumerate(self.vocabulary.spellings):
            if spelling is not None and len(spelling) == 1 and number not in self.vocabulary.special:
                tokens.setdefault(spelling[0], number)
        return tokens

    @property
    def missing_bytes(self) -> tuple[int, ...]:
        """The bytes that no token of the vocabulary spells by itself."""
        return tuple(byte for byte in range(256) if byte not in self._byte_tokens)

    def ids(self, data: bytes) -> list[int]:
        """Token ids that spell the bytes; what is no UTF-8 among them is spelled byte by byte."""
        ids: list[int] = []
        for text, rest in _texts(data):
            ids += self._text(text)
            ids += self._bytes(rest)
        return ids

    def _text(self, text: str) -> list[int]:
        exact = self._exact(text)
        if exact is not None:
            return exact
        ids: list[int] = []
        for character in text:  # one of them is unknown to the tokenizer
            alone = self._exact(character)
            ids += self._bytes(character.encode()) if alone is None else alone
        return ids

    def _exact(self, text: str) -> list[int] | None:
        """The tokenizer's own encoding, if that spells the text."""
        if not text:
            return []
        if self.vocabulary.alphabet == "sentencepiece":
            ids = [token.id for token in self._tokenizer.model.tokenize(text.replace(" ", SPACE_MARK))]
        else:
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids if self.vocabulary.spelled(ids) == text.encode() else None

    def _bytes(self, data: bytes) -> list[int]:
        ids: list[int] = []
        for byte in data:
            token = self._byte_tokens.get(byte)
            ids += [self._byte_tokens[b] for b in REPLACEMENT.encode()] if token is None else [token]
        return ids


def _texts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The bytes as stretches of text, each with the bytes behind it that are no UTF-8."""
    while True:
        try:
            yield data.decode(), b""
        except UnicodeDecodeError as error:
            yield data[: error.start].decode(), data[error.start : error.end]
            data = data[error.end :]
        else:
            return


def _alphabet(tokenizer: Any, name: str) -> Alphabet:
    """How the tokenizer's tokens stand for bytes, told by how it decodes them."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    kinds = set() if decoder is None else set(_kinds(json.loads(decoder.__getstate__())))
    if "ByteLevel" in kinds:
        return "byte_level"
    if kinds & {"Metaspace", "ByteFallback"}:
        return "sentencepiece"
    raise IncompatibleModelsError(
        f"{name}: a vocabulary map needs a tokenizer with byte-level or SentencePiece tokens; this one "
        f"decodes by {', '.join(sorted(kinds)) or 'code of its own'}"
    )


def _kinds(state: Any) -> Iterator[str]:
    """The types of a tokenizer component and of all in it."""
    if isinstance(state, Mapping):
        if isinstance(state.get("type"), str):
            yield state["type"]
        for value in state.values():
            yield from _kinds(value)
    elif isinstance(state, list):
        for value in state:
            yield from _kinds(value)


def _raw_tokenizer(tokenizer: Any, alphabet: Alphabet) -> Any:
    """A copy of the tokenizer that takes a text as it is: as the middle of one, and all of it as text."""
    backend = tokenizer.backend_tokenizer
    if alphabet == "sentencepiece":
        return backend
    state = json.loads(backend.to_str())
    state["normalizer"] = None
    _begin_with_no_space(state["pre_tokenizer"])
    raw = type(backend).from_str(json.dumps(state))
    raw.encode_special_tokens = True
    return raw


def _begin_with_no_space(state: Any) -> None:
    if isinstance(state, dict):
        if "add_prefix_space" in state:
            state["add_prefix_space"] = False
        for value in state.values():
            _begin_with_no_space(value)
    elif isinstance(state, list):
        for value in state:
            _begin_with_no_space(value)


def _letters() -> dict[str, int]:
    """The byte of each letter of GPT-2's alphabet: printable Latin-1 as it is, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + place): byte for place, byte in enumerate(others)}


LETTERS = _letters()


def _spelled(token: str, alphabet: Alphabet) -> bytes:
    if alphabet == "byte_level":
        if all(letter in LETTERS for letter in token):
            return bytes(LETTERS[letter] for letter in token)
        return token.encode()  # put there as a text
    named = NAMED_BYTE.fullmatch(token)
    return bytes([int(named[1], 16)]) if named else token.replace(SPACE_MARK, " ").encode()


def _named_bytes(tokens: Mapping[str, int], alphabet: Alphabet) -> frozenset[int]:
    if alphabet == "byte_level":
        return frozenset()
    return frozenset(number for token, number in tokens.items() if NAMED_BYTE.fullmatch(token))


def _end_of_turn(tokenizer: Any, special: Mapping[str, int]) -> int | None:
    """The special token that the chat template writes behind an answer; else the tokenizer's EOS."""
    eos: int | None = tokenizer.eos_token_id
    if not getattr(tokenizer, "chat_template", None):
        return eos
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}]
    try:
        rendered = str(tokenizer.apply_chat_template(messages, tokenize=False))
    except Exception:  # a template is a program: whatever ends it, it tells nothing
        return eos
    behind = rendered.rpartition(PROBE)[2].lstrip()
    ends = [name for name in special if name and behind.startswith(name)]
    return special[max(ends, key=len)] if ends else eos


def _fingerprint(spellings: Sequence[bytes | None], special: frozenset[int]) -> str:
    digest = hashlib.sha256()
    for number, spelling in enumerate(spellings):
        if spelling is not None:
            digest.update(b"%d %d %d " % (number, number in special, len(spelling)))
            digest.update(spelling)
    return digest.hexdigest()
