"""What the verifier has written, in the tokens of a drafter of another family.

A token with a counterpart is its counterpart: so a draft that stands is in the drafter's cache already, and
what the drafter reads at a position depends on the tokens before it alone, not on where blocks fall. A token
without one is spelled in the drafter's tokens, together with what stands before it since the last safe
boundary, as the drafter's tokenizer would write that stretch. Behind a safe boundary, a space that begins a
word, nothing earlier can change: so no more than `MAX_TAIL_BYTES` are ever spelled again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .spelling import Speller, Vocabulary
from .vocab import VocabMap

__all__ = ["MAX_TAIL_BYTES", "Transcriber", "Transcript"]

MAX_TAIL_BYTES = 64


class Transcriber:
    """Writes token ids of the verifier in those of the drafter; shared by all requests of a pair."""

    def __init__(self, vocab_map: VocabMap, verifier: Vocabulary, speller: Speller) -> None:
        vocab_map.check(verifier, speller.vocabulary)
        self.vocab_map = vocab_map
        self.verifier = verifier
        self.drafter = speller.vocabulary
        self.speller = speller
        self.to_drafter = vocab_map.to_drafter

    def begin(self) -> Transcript:
        """The transcript of an answer that has no tokens yet."""
        return Transcript(self)

    def respelled(self, tokens: Iterable[int]) -> list[int]:
        """A prompt in the drafter's tokens: special ones as their counterparts, the rest spelled anew."""
        ids: list[int] = []
        text = b""
        for token in tokens:
            own = self.to_drafter.get(token)
            if own is not None and own in self.drafter.special:
                ids += [*self.speller.ids(text), own]
                text = b""
            else:
                text += self.verifier.spelling(token)
        return ids + self.speller.ids(text)


class Transcript:
    """One answer in the drafter's tokens.

    Invariants: `tokens` is a function of the verifier's tokens pushed so far, taken one by one; it spells the
    same bytes (a paired special token counts as its counterpart); a push of a token that has a counterpart
    only appends that; any push leaves all but the last `MAX_TAIL_BYTES` bytes as they were.
    """

    def __init__(self, transcriber: Transcriber) -> None:
        self._transcriber = transcriber
        self.tokens: list[int] = []
        self.num_pushed = 0
        self.num_respelled = 0  # pushed tokens that had no counterpart
        self.num_kept = 0  # tokens that the last push left as they were
        self.num_replaced = 0  # tokens that pushes took back, to spell their end anew
        self._boundary = 0  # tokens before it stay as they are
        self._tail = b""  # what the tokens behind it spell

    def push(self, tokens: Sequence[int]) -> None:
        """Goes on with tokens of the verifier."""
        for token in tokens:
            self.num_pushed += 1
            self.num_kept = len(self.tokens)
            own = self._transcriber.to_drafter.get(token)
            if own is None:
                self.num_respelled += 1
                self._respell(self._transcriber.verifier.spelling(token))
            else:
                self._append(own)

    def _respell(self, more: bytes) -> None:
        ids = self._transcriber.speller.ids(self._tail + more)
        before = self.tokens[self._boundary :]
        same = 0
        while same < min(len(ids), len(before)) and ids[same] == before[same]:
            same += 1
        self.num_kept = self._boundary + same
        self.num_replaced += len(before) - same
        del self.tokens[self._boundary :]
        self._tail = b""
        for token in ids:
            self._append(token)

    def _append(self, token: int) -> None:
        drafter = self._transcriber.drafter
        spelling = drafter.spelling(token)
        if token in drafter.special:
            self.tokens.append(token)
            self._boundary, self._tail = len(self.tokens), b""
            return
        if spelling.startswith(b" ") and self._tail and not _ends_in_space(self._tail):
            self._boundary, self._tail = len(self.tokens), b""
        self.tokens.append(token)
        self._tail += spelling
        while len(self._tail) > MAX_TAIL_BYTES or (self._tail and _begins_inside(self._tail)):
            self._tail = self._tail[len(drafter.spelling(self.tokens[self._boundary])) :]
            self._boundary += 1


def _ends_in_space(data: bytes) -> bool:
    return data[-4:].decode(errors="replace")[-1:].isspace()


def _begins_inside(data: bytes) -> bool:
    """Whether the first byte is no character's first."""
    return 0x80 <= data[0] < 0xC0
