"""LLMLingua2: the published token classifiers behind the compressor protocol, run by this package."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigurationError
from ...recording import NULL_RECORDER, Recorder
from ...tokens import TokenCounter
from ..base import Rendition
from ..extractive import extraction
from ..headtail import HeadTail
from ..ranking import default_ranker
from ..segments import Span
from .checkpoint import Checkpoint, checkpoint_folder, load_checkpoint
from .chunks import Chunker
from .classifier import Classifier
from .protection import Protected, Protection, protection_name
from .rendition import fit, least_tokens, named_spans, widened
from .threshold import Judged, judge, percentile_of_rate
from .words import places_of

__all__ = [
    "CHUNK_ENDS",
    "NAME",
    "PROTECTED",
    "LLMLingua2",
    "ProgressReport",
    "check_timeout",
    "fits",
    "record_fallback",
]

NAME = "llmlingua2"
CHUNK_ENDS = (".", "\n")
PROTECTED = Protection()
MAX_CACHED_CHUNKS = 8_192  # about 2 kB each
BATCH_SIZE = 16  # where there is an accelerator; a CPU gains nothing from more than one full chunk at a time
NUM_STEPS = 1_000  # tenths of a percent
MAX_BATCH_SIZE = 1_024
PROGRESS_S = 1.0  # between two reports of progress
MAX_TIMEOUT_S = 86_400


class LLMLingua2:
    """Keeps the words of a text that a token classifier finds needed, as many as fit the target.

    For prose: it knows nothing of JSON or code, and does not read the query. The words are chosen chunk by
    chunk by the percentile of their probabilities, as in the paper; the percentile is searched so that the
    rendition fits. What `protected` names stays whatever the classifier says. Where that alone does not fit
    (a target far below the text's size), or the classifier finds nothing, the rendition is an extract by the
    query, or head and tail without the extra `compress`; `Rendition.compressor` says which, and a
    `compress_fallback` event why. Of encyclopedic prose the protected spans are a fifth.

    One thread runs the model for all callers, so any number of threads may call. `compress` raises
    TimeoutError where the model takes longer than `timeout_s`, and the chunks not begun are then dropped;
    those done are kept (`MAX_CACHED_CHUNKS`, by hash: no text is held). Long inputs are reported once a
    second as `compress_progress` events. On a CPU chunks run one by one; with a `batch_size` above 1 the
    last bits of a probability may depend on the batch, which matters where two words are equal to that bit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        dtype: str = "float32",
        batch_size: int | None = None,
        protected: Protected = PROTECTED,
        chunk_ends: Sequence[str] = CHUNK_ENDS,
        timeout_s: float | None = 30.0,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        check_timeout(timeout_s)
        if batch_size is not None and not 1 <= batch_size <= MAX_BATCH_SIZE:
            raise ConfigurationError(f"batch_size={batch_size}: must be between 1 and {MAX_BATCH_SIZE:,}")
        if isinstance(chunk_ends, str) or not all(isinstance(end, str) for end in chunk_ends):
            raise ConfigurationError(f"chunk_ends={chunk_ends!r}: must be a sequence of strings")
        ends = tuple(dict.fromkeys(chunk_ends))
        self._chunker = Chunker(checkpoint.tokenizer, max_tokens=checkpoint.max_tokens - 1, chunk_ends=ends)
        is_on_cpu = checkpoint.model.device.type == "cpu"
        self._classifier = Classifier(
            checkpoint.model,
            batch_size=batch_size or (1 if is_on_cpu else BATCH_SIZE),
            max_cached=MAX_CACHED_CHUNKS,
        )
        self._protected = protected
        self._timeout_s = timeout_s
        self._recorder = recorder
        self._fallback = extraction(default_ranker(), HeadTail())
        self._configuration = (
            f"{NAME}/2(checkpoint={checkpoint.digest},dtype={dtype},tokens={checkpoint.max_tokens},"
            f"chunk_ends={ends!r},protected={protection_name(protected)},"
            f"fallback={self._fallback.configuration})"
        )

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str],
        *,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int | None = None,
        protected: Protected = PROTECTED,
        chunk_ends: Sequence[str] = CHUNK_ENDS,
        timeout_s: float | None = 30.0,
        recorder: Recorder = NULL_RECORDER,
        offline: bool = False,
    ) -> LLMLingua2:
        """The compressor over a checkpoint: a local folder, or a hub name such as
        `microsoft/llmlingua-2-xlm-roberta-large-meetingbank`.

        `device` None picks CUDA where present. `protected` gives the places a rendition must have
        (`Protection(patterns)` adds patterns, `nothing_protected` leaves all to the classifier); it
        is named in the configuration by its attribute `configuration`, else by module and name. `chunk_ends`
        are the tokens a chunk may end at. `offline` uses only what is on this machine. Raises WeightsError
        for what is no token classifier in safetensors, ConfigurationError for an option out of its range.
        """
        checkpoint = load_checkpoint(checkpoint_folder(model, offline=offline), device=device, dtype=dtype)
        return cls(
            checkpoint,
            dtype=dtype,
            batch_size=batch_size,
            protected=protected,
            chunk_ends=chunk_ends,
            timeout_s=timeout_s,
            recorder=recorder,
        )

    @property
    def configuration(self) -> str:
        """The checkpoint by a hash of its files, and what else decides over renditions."""
        return self._configuration

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or a marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, NAME, "text")
        shortened = None
        spans = named_spans(self._protected, text)
        if fits(text, spans, target_tokens, counter):
            judged = self._judged(text, counter)
            words = places_of([one.words for one in judged])

            def kept_at(step: int) -> Iterable[Span]:
                return words.spans(_kept(judged, 100 * (1 - step / NUM_STEPS)))

            must = widened(spans, words)
            shortened = fit(text, kept_at, NUM_STEPS, must, target_tokens=target_tokens, counter=counter)
        if shortened is None:
            record_fallback(self._recorder, self._configuration, text, spans, target_tokens, counter)
            return self._fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, NAME, "text")

    def kept_words(self, text: str, *, rate: float, counter: TokenCounter) -> tuple[Span, ...]:
        """The words that llmlingua keeps at `rate` (the share of tokens), protected spans aside.

        Every word where `rate` is 1 or more. Raises TimeoutError as `compress` does.
        """
        judged = self._judged(text, counter)
        percentile = percentile_of_rate(rate)
        words = places_of([one.words for one in judged])
        return tuple(words.spans(None if percentile is None else _kept(judged, percentile)))

    def _judged(self, text: str, counter: TokenCounter) -> list[Judged]:
        chunks = list(self._chunker.chunks(text))
        report = ProgressReport(self._recorder, self._configuration)
        scores = self._classifier.scores(
            [chunk.ids for chunk in chunks], timeout_s=self._timeout_s, on_progress=report
        )
        return judge(chunks, scores, counter)


class ProgressReport:
    """Records how many of a text's chunks are done, at most once a second, and the end of what was reported.

    Work that takes less than a second is not reported.
    """

    def __init__(self, recorder: Recorder, configuration: str) -> None:
        self._recorder, self._configuration = recorder, configuration
        self._started_s = self._reported_s = time.monotonic()
        self._is_reported = False

    def __call__(self, num_done: int, num_chunks: int) -> None:
        now_s = time.monotonic()
        is_last = num_done == num_chunks and self._is_reported
        if is_last or now_s - self._reported_s >= PROGRESS_S:
            self._reported_s, self._is_reported = now_s, True
            self._recorder.record(
                "compress_progress",
                compressor=self._configuration,
                num_done=num_done,
                num_chunks=num_chunks,
                elapsed_s=now_s - self._started_s,
            )


def fits(text: str, spans: Sequence[Span], target_tokens: int, counter: TokenCounter) -> bool:
    """Whether a rendition has room for the protected spans; where not, no model's time need be spent."""
    return target_tokens > 0 and least_tokens(text, spans, counter) <= target_tokens


def record_fallback(
    recorder: Recorder,
    configuration: str,
    text: str,
    spans: Sequence[Span],
    target_tokens: int,
    counter: TokenCounter,
) -> None:
    """Records that a text's rendition is by another compressor, and what the target had no room for."""
    recorder.record(
        "compress_fallback",
        compressor=configuration,
        protected_tokens=least_tokens(text, spans, counter) if spans else 0,
        target_tokens=target_tokens,
    )


def check_timeout(timeout_s: float | None) -> None:
    """Raises ConfigurationError for a time that is no limit."""
    if timeout_s is not None and not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ConfigurationError(f"timeout_s={timeout_s}: must be None or in (0, {MAX_TIMEOUT_S:,}] seconds")


def _kept(judged: Sequence[Judged], percentile: float) -> NDArray[np.bool_]:
    return np.concatenate([one.kept(percentile) for one in judged] or [np.zeros(0, np.bool_)])
