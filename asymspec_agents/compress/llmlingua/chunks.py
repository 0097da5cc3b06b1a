"""A text as the chunks a classifier reads, and each chunk as words.

Chunks and words are those of the llmlingua package: a chunk is the longest run of tokens that fits and closes
with a chunk end (a full stop), and is tokenized once more by itself; a word is a token that opens one and
those that continue it. Unlike there, words carry their places in the text, what users write never becomes a
control token, and nothing is cut off where the second tokenization gives more tokens than the first.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import WeightsError
from ...tokens import clean_text
from ..segments import Span
from .words import Word, Words, WordsWriter

__all__ = ["Chunk", "Chunker"]

Family = Literal["wordpiece", "metaspace", "bytelevel"]

_PIECE_CHARACTERS = 16_384  # tokenized at a time, so that no other thread waits long for the results' turn
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sequence for the classifier; `word_of[i]` is the word that token i's score counts for, or -1."""

    start: int
    end: int
    ids: NDArray[np.int64]
    word_of: NDArray[np.int64]
    words: Words


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Tokens with their places in the text."""

    pieces: list[str]
    starts: list[int]
    ends: list[int]
    ids: list[int]


class Chunker:
    """Takes texts apart for one tokenizer; thread-safe.

    `max_tokens` is the longest sequence of a chunk without its opening token. Raises WeightsError for a
    tokenizer whose words cannot be told.
    """

    def __init__(self, tokenizer: Any, *, max_tokens: int, chunk_ends: tuple[str, ...]) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise WeightsError("the checkpoint has no fast tokenizer, whose places in the text are needed")
        self._backend = type(backend).from_str(backend.to_str())
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True  # "[SEP]" in a text is five characters
        self.family: Family = _family(self._backend)
        self._max_tokens = max_tokens
        self._chunk_ends = frozenset(chunk_ends)
        self._special_ids = frozenset(tokenizer.all_special_ids)
        self._unknown_id = tokenizer.unk_token_id

    def chunks(self, text: str) -> Iterator[Chunk]:
        """The chunks of `text` in order."""
        text = clean_text(text)
        spans = list(self._spans(text))[::-1]
        while spans:
            span = spans.pop()
            tokens = self._tokenize(text, span.start, span.end)
            cut = tokens.starts[self._max_tokens] if len(tokens.ids) > self._max_tokens else span.end
            if span.start < cut < span.end:
                spans += [Span(cut, span.end), Span(span.start, cut)]
            elif tokens.ids:
                yield self._chunk(text, span, tokens)

    def _spans(self, text: str) -> Iterator[Span]:
        """Where llmlingua's rule ends chunks: at the last chunk end among the tokens that fit."""
        tokens = self._tokenize(text, 0, len(text))
        start, num_tokens, reach = 0, len(tokens.pieces), self._max_tokens - 1
        while start < num_tokens:
            last = min(start + reach, num_tokens - 1)
            if start + reach < num_tokens:
                ends = (i for i in range(last, start, -1) if tokens.pieces[i] in self._chunk_ends)
                last = next(ends, last)
            yield Span(tokens.starts[start], max(tokens.ends[start : last + 1]))
            start = last + 1

    def _tokenize(self, text: str, start: int, end: int) -> _Tokens:
        tokens = _Tokens([], [], [], [])
        while start < end:
            piece_end = _piece_end(text, start, end)
            # A batch of one, as only batches are tokenized without holding up Python's other threads.
            (encoding,) = self._backend.encode_batch([text[start:piece_end]], add_special_tokens=False)
            tokens.pieces.extend(encoding.tokens)
            tokens.ids.extend(encoding.ids)
            for first, last in encoding.offsets:
                tokens.starts.append(start + first)
                tokens.ends.append(start + last)
            start = piece_end
        return tokens

    def _chunk(self, text: str, span: Span, tokens: _Tokens) -> Chunk:
        ids = tokens.ids[: self._max_tokens]
        is_known = [token_id not in self._special_ids for token_id in ids]
        opens = [
            index
            for index, known in enumerate(is_known)
            if not index or self._opens_word(tokens.pieces[index], known)
        ]
        word_of = [-1] * len(ids)
        words = WordsWriter()
        for number, (first, after) in enumerate(itertools.pairwise([*opens, len(ids)])):
            known = [i for i in range(first, after) if is_known[i]]
            for i in known or range(first, after):
                word_of[i] = number
            words.add(self._word(text, tokens, range(first, after), known))
        as_text = [self._unknown_id if i in self._special_ids else i for i in ids]
        return Chunk(span.start, span.end, np.array(as_text), np.array(word_of), words.words())

    def _opens_word(self, piece: str, is_known: bool) -> bool:
        if self.family == "wordpiece":
            return not piece.startswith("##")
        if not is_known:
            return False
        # llmlingua asks for a part of the string of all marks, so a few pairs of them count too.
        return piece in string.punctuation or piece.startswith("▁" if self.family == "metaspace" else "Ġ")

    def _word(self, text: str, tokens: _Tokens, member: range, known: list[int]) -> Word:
        # A lone "▁" has the place of what follows it, which may be another word.
        placed = [i for i in member if self.family != "metaspace" or tokens.pieces[i] != "▁"]
        if not placed:
            return Word(tokens.starts[member[0]], tokens.starts[member[0]], "", bool(known))
        start = min(tokens.starts[i] for i in placed)
        end = max(tokens.ends[i] for i in placed)
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        pieces = [tokens.pieces[i] for i in known]
        if self.family == "bytelevel":
            return Word(start, end, text[start:end] if known else "", bool(known))
        if self.family == "wordpiece":
            return Word(start, end, "".join([*pieces[:1], *(p.lstrip("#") for p in pieces[1:])]), bool(known))
        return Word(start, end, "".join(piece.lstrip("▁") for piece in pieces), bool(known))


def _family(backend: Any) -> Family:
    model, decoder = type(backend.model).__name__, type(backend.decoder).__name__
    if model == "WordPiece" and backend.model.continuing_subword_prefix == "##":
        return "wordpiece"
    if model == "Unigram" or decoder == "Metaspace":
        return "metaspace"
    if decoder == "ByteLevel":
        return "bytelevel"
    raise WeightsError(
        f"a tokenizer of the kind {model} with the decoder {decoder} does not tell where words begin; "
        "WordPiece, SentencePiece and byte-level tokenizers do"
    )


def _piece_end(text: str, start: int, end: int) -> int:
    """A place to part the text at: before white space, where every tokenizer parts it anyway."""
    if end - start <= _PIECE_CHARACTERS:
        return end
    found = _SPACE.search(text, start + _PIECE_CHARACTERS // 2, start + _PIECE_CHARACTERS)
    return found.start() if found else start + _PIECE_CHARACTERS
