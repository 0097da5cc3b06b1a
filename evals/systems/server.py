"""A server: every arm that can be put to an AsymSpec server, Floor and Ceiling on any other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from asymspec_agents.backends import Backend, HTTPBackend
from asymspec_agents.backends.connection_options import ConnectionOptions
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.errors import AsymSpecError, ConfigurationError, MissingDependencyError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.tokens import CachedCounter, EstimateCounter, TokenizerCounter
from asymspec_agents.weights import resolve

from ..answering import Answering
from ..cells import IDENTICAL, ArmSpec
from ..views import TextTokens
from .base import System, refused
from .lone_drafter import LoneDrafter
from .options import SystemOptions
from .probing import ServerFacts, probe
from .putting import by_options, compressed_only, identical

__all__ = ["ServerSystem", "open_server"]

PLAIN = ("floor", "ceiling")
SYMMETRIC = ("symmetric_full", "symmetric_compressed")
ONLY_LOCAL = ("scd", "rapid")
NAME_ONE = "name one that it serves with --drafter-model, or a server of the drafter's own with --drafter-url"


def open_server(options: SystemOptions) -> ServerSystem:
    """The system at `options.url`; asks the server what it is, and the drafter's own where there is one.

    Raises what `probe` does, and ConfigurationError for a model that is not served there.
    """
    connection = ConnectionOptions(
        base_url=options.url or "", api_key=options.api_key, timeout_s=options.timeout_s
    )
    facts = probe(connection)
    elsewhere = None if options.drafter_url is None else LoneDrafter.at(options)
    try:
        return ServerSystem(options, facts, elsewhere)
    except BaseException:
        if elsewhere is not None:
            elsewhere.backend.close()
        raise


class ServerSystem(System):
    """A server under test. Costs of what it computed are modelled from its usage and reports.

    `elsewhere` is the drafter's own server, which the system closes; None: the drafter is served beside the
    verifier, or only in it.
    """

    def __init__(
        self, options: SystemOptions, facts: ServerFacts, elsewhere: LoneDrafter | None = None
    ) -> None:
        super().__init__(llmlingua=options.llmlingua, device=None)
        self._options, self._facts, self._elsewhere = options, facts, elsewhere
        info = facts.asymspec
        named = options.model or (None if info is None else info.verifier)
        if named is None:
            self._verifier = facts.only_model("the verifier", "--model")
        else:
            self._verifier = facts.checked("model", named)
        self._backend = HTTPBackend(
            options.url or "",
            api_key=options.api_key,
            model=self._verifier,
            on_missing_asymspec="error" if info is not None else "warn",
            timeout_s=options.timeout_s,
        )
        self._drafter = elsewhere or self._beside()
        in_pair = None if info is None else info.drafter
        self.identity = {
            "kind": "openai" if info is None else "asymspec",
            "url": self._backend.base_url,
            "server": (info.server if info is not None else None),
            "server_version": facts.version,
            "verifier": self._verifier,
            "drafter": in_pair if self._drafter is None else in_pair or self._drafter.model,
            "drafter_alone": None if self._drafter is None else self._drafter.model,
            "drafter_url": None if elsewhere is None else elsewhere.backend.base_url,
            "drafter_server": None if elsewhere is None else elsewhere.server,
            "drafter_server_version": None if elsewhere is None else elsewhere.server_version,
            "verifier_params": options.verifier_params,
            "drafter_params": options.drafter_params,
            "dtype": None,
            "device": None,
            "counter": self.tokens.counter.name,
            "llmlingua": options.llmlingua,
            "verifier_sees_images": options.verifier_sees_images,
            "drafter_sees_images": options.drafter_sees_images,
        }
        self.seeing = options.seeing
        arms = {*PLAIN, *(("drafter",) if self._drafter is not None else ())}
        if info is not None:
            arms |= {*SYMMETRIC, IDENTICAL, "paper", *(mode for mode in MODES if mode in info.modes)}
            arms |= {"gate+delta"} if self._knows_all_rules else set()
        self.arms = frozenset(arms)

    def refusal(self, arm: ArmSpec) -> str | None:
        name = "gate+delta" if "+" in arm.name else arm.name
        if name in self.arms:
            return None
        where = f"{self._backend.base_url} is {self._facts.kind}"
        if name in ONLY_LOCAL:
            return "no server decodes so; run it with local models"
        if name == "drafter":
            return f"{where} that serves no drafter by itself; {NAME_ONE}"
        if self._facts.asymspec is None:
            return f"{where}, which answers {', '.join(sorted(self.arms))} only"
        return f"{where}, whose modes are {', '.join(self._facts.asymspec.modes)}"

    def answering(self, arm: ArmSpec) -> Answering:
        if (reason := self.refusal(arm)) is not None:
            raise refused(arm, reason)
        options = arm.asymspec_options()
        speaks = self._facts.asymspec is not None
        if arm.name == "drafter" and self._drafter is not None:
            return Answering(
                backend=self._drafter.backend,
                put=by_options(options),
                mode=arm.name,
                only_model="drafter",
                salts=self._drafter.speaks,
                streams=self._drafter.speaks,
            )
        if arm.name in PLAIN:
            return Answering(
                backend=self._backend.with_arm(arm.name),
                put=by_options(options),
                mode=arm.name,
                salts=speaks,
                streams=speaks,
            )
        if arm.name in SYMMETRIC:
            strict = AsymSpecOptions.of(**{**options.model_dump(exclude_unset=True), "mode": "strict"})
            put = identical(strict) if arm.name == "symmetric_full" else compressed_only(strict)
            return Answering(backend=self._backend, put=put)
        put = identical(options) if arm.name == IDENTICAL else by_options(options)
        return Answering(backend=self._backend, put=put)

    def plain(self, reader: Literal["verifier", "drafter"]) -> Backend:
        if reader == "verifier":
            return self._backend.with_arm("ceiling")
        if self._drafter is None:
            raise ConfigurationError(f"{self._backend.base_url} serves no drafter by itself; {NAME_ONE}")
        return self._drafter.backend

    @cached_property
    def tokens(self) -> TextTokens:
        """The tokens of the tokenizer that was named; an estimate without."""
        if self._options.tokenizer is None:
            return TextTokens(CachedCounter(EstimateCounter()))
        try:
            from asymspec_agents.engine.load import load_tokenizer
        except ImportError as error:
            raise MissingDependencyError(error.name or "transformers", "engine") from error
        tokenizer = load_tokenizer(resolve(self._options.tokenizer).path)
        return TextTokens(
            CachedCounter(TokenizerCounter(tokenizer)), tokenizer if tokenizer.is_fast else None
        )

    def close(self) -> None:
        self._backend.close()
        if self._elsewhere is not None:
            self._elsewhere.backend.close()

    def _beside(self) -> LoneDrafter | None:
        """The drafter where this server serves it by itself too. Raises ConfigurationError."""
        facts, named = self._facts, self._options.drafter_model
        if named is not None:
            name = facts.checked("drafter_model", named)
        elif facts.asymspec is not None and facts.asymspec.drafter in facts.models:
            name = facts.asymspec.drafter
        else:
            return None
        return LoneDrafter.of(facts, self._backend.with_model(name), name)

    @property
    def _knows_all_rules(self) -> bool:
        return self._facts.asymspec is not None and set(MODES) <= set(self._facts.asymspec.modes)

    def _count(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int | None:
        count = self._backend.prompt_counter
        if count is None:
            return None
        try:
            return count(messages, tools)
        except AsymSpecError:  # a server that does not count is no failure of the arm
            return None
