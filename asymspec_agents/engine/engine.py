"""The reference engine: two models in memory, one request at a time, prefix reuse between requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..decoding.modes import Rule
from ..decoding.vocab import check_rule
from ..errors import ConfigurationError, ContextOverflowError, RequestAbortedError
from ..protocol import AsymSpecOptions, CachedTokens
from ..recording import NULL_RECORDER, Recorder
from .arms import Decoding, Reading
from .cross_family import CrossFamily
from .grammar import GrammarCompiler
from .loop import Readers, blocks
from .model import CausalModel
from .prefix import PrefixCache, Wanted
from .recorded import RequestRecord, TokenTexts
from .request import DecodeRequest, EngineOptions, Outcome
from .sampling import Sampler
from .tally import Tally
from .text import Decodes, TextStream
from .trim import Step, Trimmer
from .view import View
from .writing import Writing

__all__ = ["DecodeRequest", "Engine", "EngineOptions", "Outcome", "Step"]

GROWTH_ROOM = 512  # tokens of answer to leave room for at once; longer answers grow the cache

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Session:
    """One request's open views by role, in the order they are read."""

    decoding: Decoding
    fallback: str | None
    views: dict[str, View]
    cached: CachedTokens

    @property
    def prompt_tokens(self) -> dict[str, int]:
        """Each role's prompt."""
        return {role: len(view.prompt) for role, view in self.views.items()}

    @property
    def num_images(self) -> int:
        """Images that are seen."""
        return sum(len(view.sight.looks) for view in self.views.values() if view.sight is not None)

    @property
    def forwarded_tokens(self) -> dict[str, int]:
        """Positions each role's model has computed so far."""
        return {role: view.num_forwarded for role, view in self.views.items()}

    def is_full(self, committed: list[int]) -> bool:
        """Whether a model's context has no room for another block: a drafter may need more tokens of its own
        for the same text than the verifier does."""
        most = self.decoding.num_draft_tokens + 1
        return any(
            view.num_tokens(committed) + most > view.model.max_positions for view in self.views.values()
        )

    @property
    def readers(self) -> Readers:
        return Readers(self.views["verifier"], self.views.get("drafter"), self.views.get("base"))


class Engine:
    """Decodes one request at a time; further callers wait their turn.

    `tokenizer` turns the verifier's ids into text and bounds the vocabulary; `family` is given where the
    drafter has another. Prefix caches are kept by model and tenant.
    """

    def __init__(
        self,
        verifier: CausalModel,
        drafter: CausalModel,
        tokenizer: Decodes,
        vocab_size: int,
        *,
        options: EngineOptions | None = None,
        recorder: Recorder = NULL_RECORDER,
        family: CrossFamily | None = None,
    ) -> None:
        self.models = {"verifier": verifier, "drafter": drafter}
        self.tokenizer = tokenizer
        self.family = family
        self.vocab_size = min(vocab_size, verifier.vocab_size)
        if family is None:
            self.vocab_size = min(self.vocab_size, drafter.vocab_size)
        self.options = options or EngineOptions()
        self.recorder = recorder
        self.grammars = GrammarCompiler(tokenizer)
        self.drafter_grammars = self.grammars if family is None else GrammarCompiler(family.tokenizer)
        self.prefixes = PrefixCache(self.options.prefix_cache_bytes)
        self._token_texts = TokenTexts(tokenizer)
        self._drafter_texts = self._token_texts if family is None else TokenTexts(family.tokenizer)
        self._lock = threading.Lock()
        self._holder: int | None = None

    def longest_prompt(self, reading: Reading) -> int:
        """The longest prompt that leaves room for a block of the default length."""
        options = AsymSpecOptions()
        if self.models["drafter"].sees:
            options = options.with_images()
        return self._limit(reading, options.num_draft_tokens + 1)

    def _limit(self, reading: Reading, num_places: int) -> int:
        configured = {"full": self.options.max_drafter_tokens, "compressed": self.options.max_verifier_tokens}
        model_limit = self.models[reading.model].max_positions - num_places
        return min(model_limit, configured[reading.view] or model_limit)

    def decode(
        self, request: DecodeRequest, *, abort: threading.Event | None = None
    ) -> Generator[Step, None, Outcome]:
        """Steps as they are decoded; the generator's return value is the outcome.

        Closing the generator ends the request; setting `abort` makes it raise RequestAbortedError at the next
        block or prefill chunk. Raises ContextOverflowError before any model runs.
        """

        def check() -> None:
            if abort is not None and abort.is_set():
                raise RequestAbortedError(f"request {request.request_id} was aborted")

        decoding, fallback = self._choose(request)
        budget = self._output_budget(request, decoding)
        writing = self._writing(request)
        record = RequestRecord(self.recorder, request, writing.tokenizer, writing.texts)
        with self._turn(check):
            queue_s = time.monotonic() - request.asked_s
            session = self._open(request, decoding, fallback)
            model = self.models[request.arm.verifying.model].name
            cached = session.cached.model_dump()
            record.begin(decoding, fallback, session.prompt_tokens, cached, queue_s, model)
            committed: list[int] = []
            try:
                return (yield from self._run(request, session, writing, committed, budget, check, record))
            except BaseException as error:
                record.fail(error, session.forwarded_tokens)
                raise
            finally:
                self._keep(request, session, committed)

    def check_room(self, request: DecodeRequest) -> None:
        """Raises what `decode` would raise for a view, or a view and its answer, without room."""
        self._output_budget(request, self._choose(request)[0])

    def _choose(self, request: DecodeRequest) -> tuple[Decoding, str | None]:
        """The decoding to run, and why it differs from the one asked for."""
        decoding = request.arm.decoding(request.options)
        if self.family is not None and request.arm.drafting is not None:
            check_rule(decoding.rule)
        is_lossy = decoding.is_asymmetric and decoding.rule.gate != "strict" and not decoding.keeps_gate
        if is_lossy and request.sight is None and request.has_identical_views:
            fallback = ", ".join(filter(None, (request.fallback, "identical_views")))
            return replace(decoding, mode="strict", rule=Rule("strict", "none")), fallback
        return decoding, request.fallback

    def _writing(self, request: DecodeRequest) -> Writing:
        role = request.arm.verifying.model
        eos_token_ids = self.models[role].eos_token_ids
        if self.family is not None and role == "drafter":
            return Writing(self.family.tokenizer, self._drafter_texts, self.family.vocab_size, eos_token_ids)
        if self.family is not None and request.arm.drafting is not None:
            eos_token_ids = self.family.eos_token_ids
        return Writing(self.tokenizer, self._token_texts, self.vocab_size, eos_token_ids)

    def _readings(self, request: DecodeRequest, decoding: Decoding) -> dict[str, Reading]:
        """Who must read what, in the order of reading; a base view equal to the drafting view is left out."""
        arm = request.arm
        readings: dict[str, Reading] = {}
        if arm.drafting is not None:
            readings["drafter"] = arm.drafting
            if arm.base is not None and decoding.rule.needs_base:
                same = list(request.prompt(arm.base)) == list(request.prompt(arm.drafting))
                if not same:
                    readings["base"] = arm.base
        readings["verifier"] = arm.verifying
        return readings

    def _output_budget(self, request: DecodeRequest, decoding: Decoding) -> int:
        """The most tokens the answer may have; raises where a prompt, or prompt and answer, have no room."""
        if request.max_tokens is not None and request.max_tokens < 1:
            raise ConfigurationError(f"max_tokens={request.max_tokens} must be at least 1")
        num_places = decoding.num_draft_tokens + 1
        budget = request.max_tokens
        for reading in self._readings(request, decoding).values():
            num_tokens = len(request.prompt(reading))
            if num_tokens == 0:
                raise ConfigurationError(f"the {reading.view} view has no tokens; it needs at least one")
            limit = self._limit(reading, num_places)
            if num_tokens > limit:
                raise ContextOverflowError(reading.view, num_tokens, limit, f"read by the {reading.model}")
            room = self.models[reading.model].max_positions - num_places - num_tokens + 1
            if request.max_tokens is not None and request.max_tokens > room:
                raise ContextOverflowError(
                    reading.view,
                    num_tokens + request.max_tokens,
                    num_tokens + room,
                    f"lower max_tokens to {room} or shorten the view",
                )
            budget = room if budget is None else min(budget, room)
        return budget or 1

    def _open(self, request: DecodeRequest, decoding: Decoding, fallback: str | None) -> _Session:
        readings = self._readings(request, decoding)
        room = min(request.max_tokens or GROWTH_ROOM, GROWTH_ROOM)
        wanted = []
        for reading in readings.values():
            prompt = request.prompt(reading)
            owner = (id(self.models[reading.model]), request.cache_salt)
            wanted.append(Wanted(owner, prompt, len(prompt) + room))
        hits = dict(zip(readings, self.prefixes.take(wanted), strict=True))
        views: dict[str, View] = {}
        for role, reading in readings.items():
            model, prompt, cache = self.models[reading.model], request.prompt(reading), hits[role].cache
            is_foreign = reading.model != request.arm.verifying.model
            if self.family is not None and is_foreign:
                views[role] = self.family.view(model, prompt, cache)
            else:
                views[role] = View(model, prompt, cache, request.shown(reading))
        cached = {role: hit.num_tokens for role, hit in hits.items()}
        return _Session(decoding, fallback, views, CachedTokens(**cached))

    def _run(
        self,
        request: DecodeRequest,
        session: _Session,
        writing: Writing,
        committed: list[int],
        budget: int,
        check: Check,
        record: RequestRecord,
    ) -> Generator[Step, None, Outcome]:
        decoding, views = session.decoding, session.views
        started = time.monotonic()
        for role, view in views.items():
            if role == "base":  # what both of the drafter's views begin with is read once
                view.begin_like(views["drafter"])
            view.prefill(check)
        prefill_s = time.monotonic() - started
        num_places = decoding.num_draft_tokens + (decoding.bonus == "rule") if "drafter" in views else 0
        tally, text = Tally(num_places), TextStream(writing.tokenizer, request.stop, request.visible_tokens)
        trimmer = Trimmer(text, writing.eos_token_ids, budget)
        first_s: float | None = None
        block_started = time.monotonic()
        grammar, sampling = request.grammar, request.sampling
        stream = blocks(
            session.readers,
            decoding.rule,
            decoding.num_draft_tokens,
            decoding.bonus,
            writing.vocab_size,
            matcher=None if grammar is None else grammar.start(writing.eos_token_ids, writing.vocab_size),
            sampler=None if sampling is None else Sampler(sampling, writing.vocab_size),
            num_alternatives=record.num_alternatives,
        )
        for block in stream:
            committed.extend(block.tokens)
            tally.add(block)
            step = trimmer.trim(block, is_full=session.is_full(committed))
            now = time.monotonic()
            first_s = first_s if first_s is not None else now - started
            record.block(block, step, now - block_started)
            yield step
            if trimmer.finish_reason is not None:
                break
            check()
            block_started = time.monotonic()
        report = tally.report(
            mode=decoding.mode,
            fallback=session.fallback,
            verifier_prompt_tokens=len(views["verifier"].prompt),
            drafter_prompt_tokens=len(views["drafter"].prompt) if "drafter" in views else 0,
            cached_tokens=session.cached,
            cross_family=self.family.report(views["drafter"]) if self.family and "drafter" in views else None,
            images=session.num_images,
        )
        record.end(
            trimmer.finish_reason,
            trimmer.num_tokens,
            time.monotonic() - started,
            prefill_s,
            first_s,
            session.forwarded_tokens,
        )
        return Outcome(trimmer.finish_reason or "stop", trimmer.num_tokens, report)

    def _keep(self, request: DecodeRequest, session: _Session, committed: list[int]) -> None:
        """Stores the views for later calls, whatever ended this one: what they hold is right up to here."""
        for view in session.views.values():
            view.rewind(committed)
            owner = (id(view.model), request.cache_salt)
            self.prefixes.put(owner, view.tokens(committed), view.cache)

    @contextmanager
    def _turn(self, check: Check) -> Iterator[None]:
        if self._holder == threading.get_ident():
            raise ConfigurationError("this thread has an unfinished stream; exhaust or close it first")
        while not self._lock.acquire(timeout=0.05):
            check()
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()
