"""Both models in this process: every arm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from asymspec_agents.backends import Backend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.vocab import check_rule
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.errors import AsymSpecError, UnsupportedRequestError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.tokens import CachedCounter, TokenizerCounter
from asymspec_agents.weights import DEFAULT_PAIR

from ..answering import Answering, EventLog
from ..cells import BASELINES, IDENTICAL, ArmSpec
from ..views import TextTokens
from .base import System, versions
from .memory import PeakMemory
from .options import SystemOptions
from .putting import by_options, identical

__all__ = ["LocalSystem"]


class LocalSystem(System):
    """The reference engine over two models, one request at a time; its events say what each call computed."""

    max_parallel = 1

    def __init__(
        self, backend: LocalBackend, events: EventLog, identity: dict[str, Any], *, llmlingua: str | None
    ) -> None:
        device = str(backend.engine.models["verifier"].device)
        super().__init__(llmlingua=llmlingua, device=device)
        self._backend = backend
        self._events = events
        models = backend.engine.models
        self.identity = {
            "kind": "local",
            **identity,
            "verifier_params": models["verifier"].num_parameters,
            "drafter_params": models["drafter"].num_parameters,
            "device": device,
            "counter": self.tokens.counter.name,
            "llmlingua": llmlingua,
            **versions("torch", "transformers"),
        }
        if backend.capabilities.sees_images:
            self.seeing = frozenset({"drafter"})
        self.arms = frozenset((*BASELINES, IDENTICAL, *MODES, "paper", "gate+delta"))

    @classmethod
    def load(cls, options: SystemOptions) -> LocalSystem:
        """The system of these options; fetches what is missing.

        Raises MissingDependencyError without the extra `engine`, WeightsError, IncompatibleModelsError.
        """
        events = EventLog()
        verifier = options.verifier or DEFAULT_PAIR.verifier
        drafter = options.drafter or DEFAULT_PAIR.drafter
        backend = LocalBackend.load(
            verifier,
            drafter,
            dtype=options.dtype,
            device=options.device,
            recorder=events,
            vocab_map=options.vocab_map,
        )
        identity = {"verifier": verifier, "drafter": drafter, "dtype": options.dtype}
        if options.vocab_map is not None:
            identity["vocab_map"] = options.vocab_map
        return cls(backend, events, identity, llmlingua=options.llmlingua)

    def refusal(self, arm: ArmSpec) -> str | None:
        """What a drafter of another family cannot do; with one of the verifier's own every arm is here."""
        if not self._backend.capabilities.cross_family:
            return None
        asked = arm.asymspec_options()
        rule = ARMS[arm.name].decoding(asked).rule if arm.name in BASELINES else asked.rule()
        try:
            check_rule(rule)
        except UnsupportedRequestError as error:
            return str(error)
        return None

    def answering(self, arm: ArmSpec) -> Answering:
        options = arm.asymspec_options()
        is_baseline = arm.name in BASELINES
        # What an asker's calls left in the cache serves no other asker; it would only take memory.
        self._backend.engine.prefixes.clear()
        return Answering(
            backend=self._backend.with_arm(arm.name if is_baseline else "asymspec"),
            put=identical(options) if arm.name == IDENTICAL else by_options(options),
            mode=arm.name if is_baseline else None,
            only_model="drafter" if arm.name == "drafter" else None,
            events=self._events,
        )

    def plain(self, reader: Literal["verifier", "drafter"]) -> Backend:
        return self._backend.with_arm("asymspec" if reader == "verifier" else "drafter")

    @cached_property
    def tokens(self) -> TextTokens:
        """The tokens of the verifier's tokenizer."""
        tokenizer = self._backend.template.tokenizer
        return TextTokens(
            CachedCounter(TokenizerCounter(tokenizer)), tokenizer if tokenizer.is_fast else None
        )

    def _count(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int | None:
        try:
            return self._backend.count_prompt(messages, tools)
        except AsymSpecError:  # what a template refuses is the call's failure, and recorded there
            return None

    def _peak_memory(self) -> PeakMemory:
        return PeakMemory(str(self._device))
