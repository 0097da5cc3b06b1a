"""Shorter forms of single texts, each made once: renditions, extracts, head and tail, a marker.

A rendition depends on its content, the query, the target and this object's configuration only, and is cached
under them. What took its place when a compressor failed is marked `degraded` and cached alike, so a view that
was sent once stays as it is.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from .._version import __version__
from ..compress.auto import AutoCompressor
from ..compress.base import Compressor, ContentKind, KindCompressor, Rendition
from ..compress.guarded import GuardedCompressor
from ..compress.headtail import HeadTail
from ..compress.marker import left_out
from ..compress.message import EndsKept
from ..errors import ConfigurationError
from ..recording import Recorder
from ..rendition_cache import RenditionCache
from ..store import ContentStore, content_hash, short_reference
from ..tokens import CachedCounter, SampledCounter, TokenCounter
from .excerpt import Excerpt

__all__ = ["Original", "Renditions", "Shown"]

ELLIPSIS = "…"  # one token in common vocabularies
MAX_CACHED_CHARS = 50_000_000
ENTRY_CHARS = 300  # what an entry takes besides its text


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as a view shows it; `compressor` is None for the original, `degraded` says that it failed."""

    text: str
    tokens: int
    compressor: str | None = None
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Original(Shown):
    """A text in full, with its content hash.

    The first `header_chars` say which attachment it is the text of; only the rest is ever shortened.
    """

    digest: str = ""
    header_chars: int = 0

    @property
    def header(self) -> str:
        return self.text[: self.header_chars]

    @property
    def body(self) -> str:
        return self.text[self.header_chars :]


class Renditions:
    """Makes and caches renditions; thread-safe. A failing compressor never raises out of it."""

    def __init__(
        self,
        compressor: Compressor,
        counter: TokenCounter,
        store: ContentStore,
        recorder: Recorder,
        *,
        min_gain: float,
        protected: tuple[str, ...],
        timeout_s: float | None,
        kinds: Iterable[ContentKind] = (),
        exact_tokens: int = 1,
        shared: RenditionCache | None = None,
    ) -> None:
        """`exact_tokens`: the longest that a text's count has to be exact; see `SampledCounter`."""

        def guarded(inner: Compressor) -> GuardedCompressor:
            return GuardedCompressor(inner, timeout_s=timeout_s, recorder=recorder)

        self._compressor = guarded(compressor)
        self._by_kind = {kind: guarded(_as_kind(compressor, kind)) for kind in kinds}
        self._short_compressor = guarded(AutoCompressor())
        self._excerpt_compressor = guarded(Excerpt())
        self._message_compressor = EndsKept(self._compressor)
        # Compressors count whole texts and the same sentences again and again.
        self._counter = CachedCounter(SampledCounter(counter, exact_tokens=exact_tokens))
        self._store = store
        self._recorder = recorder
        self._min_gain = min_gain
        self._protected = tuple(re.compile(pattern) for pattern in protected)
        self._head_tail = HeadTail()
        self._shared = shared
        self._origin = (  # what a rendition depends on besides its key
            __version__,
            compressor.configuration,
            self._short_compressor.configuration,
            self._excerpt_compressor.configuration,
            self._head_tail.configuration,
            self._counter.name,
            min_gain,
            protected,
        )
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, Shown] = OrderedDict()  # least recently used first
        self._num_chars = 0

    def count(self, text: str) -> int:
        """Tokens of a text, counted once per content; an estimate above the exact range."""
        return self._counter.count(text)

    def original(self, text: str, header_chars: int = 0) -> Original:
        """The text with what the other methods need to know of it."""
        return Original(text, self.count(text), digest=content_hash(text), header_chars=header_chars)

    def compressed(
        self, original: Original, query: str, target_tokens: int, kind: ContentKind | None = None
    ) -> Shown:
        """The compressor's rendition; the original where it saves too little or cuts a protected span.

        `kind` is what the content is known to be, one of those that this object was made for.
        """
        key = (original.digest, original.header_chars, content_hash(query), target_tokens, kind)
        return self._found(key, original, lambda: self._compress(original, query, target_tokens, kind))

    def compressed_message(self, original: Original, target_tokens: int) -> Shown:
        """A user's message with its ends as they are and its middle compressed by what they ask."""
        key = ("message", original.digest, original.header_chars, target_tokens)
        return self._found(key, original, lambda: self._compress_message(original, target_tokens))

    def short_form(self, original: Original, query: str, target_tokens: int) -> Shown:
        """An extract of at most the target; head and tail where it saves too little or cannot be made.

        Always by AutoCompressor, which takes no model: many turns take this form at once.
        """
        key = ("short", original.digest, original.header_chars, content_hash(query), target_tokens)

        def make() -> Shown:
            made = self._shortened(self._short_compressor, original, query, target_tokens)
            num_tokens = self.count(made.text)
            if made.text and num_tokens <= min(target_tokens, original.tokens * (1 - self._min_gain)):
                return Shown(made.text, num_tokens, made.compressor, made.degraded)
            return self._cut(original, target_tokens)

        return self._found(key, original, make)

    def excerpt(self, original: Original, query: str, target_tokens: int) -> Shown:
        """What fits of a text for the full view: what was asked for and both ends; else head and tail.

        By no model either: the drafter's view of a long text is made on every call's way.
        """
        key = ("excerpt", original.digest, original.header_chars, content_hash(query), target_tokens)

        def make() -> Shown:
            made = self._shortened(self._excerpt_compressor, original, query, target_tokens)
            num_tokens = self.count(made.text)
            if made.text and num_tokens <= min(target_tokens, original.tokens - 1):
                return Shown(made.text, num_tokens, made.compressor, made.degraded)
            return self._cut(original, target_tokens)

        return self._found(key, original, make)

    def head_and_tail(self, original: Original, target_tokens: int) -> Shown:
        """Beginning and end of the text, of at most about the target."""
        key = (original.digest, original.header_chars, target_tokens)
        return self._cached(key, original, lambda: self._cut(original, target_tokens))

    def marker(self, original: Original) -> Shown:
        """Size and reference in place of the text, below an attachment's header."""
        key = (original.digest, original.header_chars)
        return self._cached(key, original, lambda: self._mark(original))

    def ellipsis(self) -> Shown:
        """The shortest sign that something stood here."""
        return Shown(ELLIPSIS, self.count(ELLIPSIS), "ellipsis")

    def _found(self, key: Hashable, original: Original, make: Callable[[], Shown]) -> Shown:
        """As `_cached`, but looked for among other processes' renditions before it is made."""
        shared = self._shared
        if shared is None:
            return self._cached(key, original, make)

        def make_or_find() -> Shown:
            name = content_hash(repr((self._origin, key)))
            found = _read(shared.get(name))
            if found is None:
                found = make()
                if not found.degraded:  # what one process failed at, another one may not
                    shared.put(name, _written(found))
            return found

        return self._cached(key, original, make_or_find)

    def _cached(self, key: Hashable, original: Original, make: Callable[[], Shown]) -> Shown:
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
        if found is None:
            made = make()
            with self._lock:
                found = self._made.setdefault(key, made)  # the first of two concurrent makers wins
                if found is made:
                    self._num_chars += len(made.text) + ENTRY_CHARS
                while self._num_chars > MAX_CACHED_CHARS:
                    _, dropped = self._made.popitem(last=False)
                    self._num_chars -= len(dropped.text) + ENTRY_CHARS
            if found.compressor is not None:
                self._keep(original.body or original.text)
        if found.compressor is None:
            return replace(original, degraded=True) if found.degraded else original
        return found

    def _keep(self, text: str) -> None:
        """Stores an original; a store that fails (a full disk) costs the reference, not the call."""
        try:
            self._store.put(text)
        except Exception as error:
            self._recorder.record("store_failed", error=type(error).__name__)

    def _compress(
        self, original: Original, query: str, target_tokens: int, kind: ContentKind | None
    ) -> Shown:
        compressor = self._compressor if kind is None else self._by_kind[kind]
        return self._worthwhile(original, self._shortened(compressor, original, query, target_tokens))

    def _compress_message(self, original: Original, target_tokens: int) -> Shown:
        made = self._shortened(self._message_compressor, original, "", target_tokens)
        return self._worthwhile(original, made)

    def _shortened(
        self, compressor: Compressor, original: Original, query: str, target_tokens: int
    ) -> Rendition:
        """A rendition of the body, below its header where there is one."""
        header = original.header
        target = max(1, target_tokens - self.count(header)) if header else target_tokens
        made = compressor.compress(original.body, query=query, target_tokens=target, counter=self._counter)
        return replace(made, text=header + made.text) if header else made

    def _worthwhile(self, original: Original, made: Rendition) -> Shown:
        """The rendition; in its place a note to keep the original where it saves or protects too little."""
        num_tokens = self.count(made.text)
        is_worth_it = num_tokens <= original.tokens * (1 - self._min_gain)
        if not is_worth_it or self._cuts_protected(original.text, made.text):
            return Shown("", 0, degraded=made.degraded)  # the original stays; the cache holds no copy of it
        return Shown(made.text, num_tokens, made.compressor, made.degraded)

    def _cuts_protected(self, text: str, rendition: str) -> bool:
        return any(
            match.group() not in rendition for pattern in self._protected for match in pattern.finditer(text)
        )

    def _cut(self, original: Original, target_tokens: int) -> Shown:
        made = self._shortened(self._head_tail, original, "", target_tokens)
        return Shown(made.text, self.count(made.text), made.compressor)

    def _mark(self, original: Original) -> Shown:
        header = original.header if original.body else ""
        text = original.body or original.text
        marker = header + left_out(len(text), short_reference(text))
        return Shown(marker, self.count(marker), "marker")


def _written(shown: Shown) -> bytes:
    return json.dumps([shown.text, shown.tokens, shown.compressor]).encode("ascii")


def _read(data: bytes | None) -> Shown | None:
    """A rendition as it was written; None for anything else that a file may hold."""
    try:
        match None if data is None else json.loads(data):
            case [str(text), int(tokens), str() | None as compressor]:
                return Shown(text, tokens, compressor)
    except ValueError:
        pass
    return None


@dataclass(frozen=True, slots=True)
class _AsKind:
    """A compressor that takes every content for one kind."""

    inner: KindCompressor
    kind: ContentKind

    @property
    def configuration(self) -> str:
        return f"as-{self.kind}({self.inner.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        return self.inner.compress_as(
            self.kind, text, query=query, target_tokens=target_tokens, counter=counter
        )


def _as_kind(compressor: Compressor, kind: ContentKind) -> Compressor:
    if not isinstance(compressor, KindCompressor):
        raise ConfigurationError(
            f"tool_kinds: {type(compressor).__name__} has no compress_as, so a tool's results can only be "
            "'verbatim'; use AutoCompressor, or leave the kinds out"
        )
    return _AsKind(compressor, kind)
