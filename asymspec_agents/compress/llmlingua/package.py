"""LLMLinguaPackage: the llmlingua package's own choice of words behind the compressor protocol."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...engine.load import load_tokenizer
from ...errors import WeightsError
from ...recording import NULL_RECORDER, Recorder
from ...tokens import TokenCounter, clean_text
from ..base import Rendition
from ..extractive import extraction
from ..headtail import HeadTail
from ..ranking import default_ranker
from ..segments import Span
from .checkpoint import checkpoint_folder, content_of
from .chunks import Chunk, Chunker
from .protection import Protected, protection_name
from .rendition import fit, named_spans, widened
from .runner import CHUNK_ENDS, PROTECTED, ProgressReport, check_timeout, fits, record_fallback
from .words import places_of

if TYPE_CHECKING:
    from .package_shim import OfflineCompressor

__all__ = ["LLMLinguaPackage"]

NAME = "llmlingua"
MAX_TOKENS = 512  # fixed in the package
NUM_STEPS = 99  # the package's rates are whole percents


class LLMLinguaPackage:
    """What `LLMLingua2` does, with the words chosen by the package `llmlingua` (extra `llmlingua`).

    For comparison, and for who wants the authors' code to decide. It knows BERT's and XLM-R's tokenizers
    only, drops words its tokenizer has no piece for, and runs a text's chunks one by one in the caller's
    thread, one caller at a time. Renditions are pieces of the original all the same: the package's words are
    found in it again, and a word that is not found does not stay.
    """

    def __init__(
        self,
        package: OfflineCompressor,
        chunker: Chunker,
        digest: str,
        *,
        protected: Protected,
        timeout_s: float | None,
        recorder: Recorder,
    ) -> None:
        self._package, self._chunker = package, chunker
        self._protected = protected
        self._timeout_s = timeout_s
        self._recorder = recorder
        self._fallback = extraction(default_ranker(), HeadTail())
        self._lock = threading.Lock()
        self._configuration = (
            f"{NAME}/2(package={importlib.metadata.version('llmlingua')},checkpoint={digest},"
            f"protected={protection_name(protected)},fallback={self._fallback.configuration})"
        )

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str],
        *,
        device: str = "cpu",
        protected: Protected = PROTECTED,
        timeout_s: float | None = 30.0,
        recorder: Recorder = NULL_RECORDER,
        offline: bool = False,
    ) -> LLMLinguaPackage:
        """The compressor over a checkpoint, given as for `LLMLingua2.load`; its path may have any name.

        Raises MissingDependencyError without the package, WeightsError as `LLMLingua2.load` does and for
        tokenizers of other kinds than WordPiece and SentencePiece.
        """
        from .package_shim import OfflineCompressor

        check_timeout(timeout_s)
        folder = checkpoint_folder(model, offline=offline)
        chunker = Chunker(load_tokenizer(folder), max_tokens=MAX_TOKENS - 1, chunk_ends=CHUNK_ENDS)
        family = chunker.family
        if family == "bytelevel":
            raise WeightsError("the llmlingua package knows no byte-level tokenizers; LLMLingua2 does")
        return cls(
            OfflineCompressor(folder, family=family, device=device),
            chunker,
            content_of(folder),
            protected=protected,
            timeout_s=timeout_s,
            recorder=recorder,
        )

    @property
    def configuration(self) -> str:
        return self._configuration

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or a marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, NAME, "text")
        shortened = None
        named = named_spans(self._protected, text)
        if fits(text, named, target_tokens, counter):
            chunks = list(self._chunker.chunks(text))
            words = places_of([chunk.words for chunk in chunks])
            spans = widened(named, words)
            deadline_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s

            def kept_at(step: int) -> Iterable[Span]:
                return self._kept(text, chunks, step / 100, counter, deadline_s)

            shortened = fit(text, kept_at, NUM_STEPS, spans, target_tokens=target_tokens, counter=counter)
        if shortened is None:
            record_fallback(self._recorder, self._configuration, text, named, target_tokens, counter)
            return self._fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, NAME, "text")

    def kept_words(self, text: str, *, rate: float, counter: TokenCounter) -> tuple[Span, ...]:
        """The words that the package keeps at `rate`, at their places in `text`; every word from 1 on."""
        chunks = list(self._chunker.chunks(text))
        if rate >= 1:
            return tuple(places_of([chunk.words for chunk in chunks]).spans())
        return tuple(self._kept(text, chunks, rate, counter, None))

    def _kept(
        self, text: str, chunks: Sequence[Chunk], rate: float, counter: TokenCounter, deadline_s: float | None
    ) -> list[Span]:
        report = ProgressReport(self._recorder, self._configuration)
        cleaned = clean_text(text)
        kept: list[Span] = []
        for index, chunk in enumerate(chunks if rate > 0 else ()):
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise TimeoutError(f"{index} of {len(chunks)} chunks classified after {self._timeout_s} s")
            with self._lock:
                labels = self._package.labels(cleaned[chunk.start : chunk.end], rate, counter)
            kept += _found(chunk, labels)
            report(index + 1, len(chunks))
        return kept


def _found(chunk: Chunk, labels: Sequence[tuple[str, bool]]) -> list[Span]:
    """The places of the package's kept words: those it has in common with the chunk, in order."""
    ours, places = list(chunk.words.written), chunk.words.places.spans()
    theirs = [written for written, _ in labels]
    if ours == theirs:
        return [place for place, (_, stays) in zip(places, labels, strict=True) if stays]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        places[match.a + i]
        for match in matcher.get_matching_blocks()
        for i in range(match.size)
        if labels[match.b + i][1]
    ]
