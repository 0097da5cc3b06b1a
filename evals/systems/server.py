"""A server: every arm that can be put to an AsymSpec server, Floor and Ceiling on any other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from asymspec_agents.backends import Backend, HTTPBackend
from asymspec_agents.backends.connection_options import ConnectionOptions
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.errors import BackendError, ConfigurationError, MissingDependencyError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.tokens import CachedCounter, EstimateCounter, TokenizerCounter
from asymspec_agents.weights import resolve

from ..answering import Answering
from ..cells import IDENTICAL, ArmSpec
from ..views import TextTokens
from .base import System, refused, versions
from .options import SystemOptions
from .probing import ServerFacts, probe
from .putting import by_options, compressed_only, identical

__all__ = ["ServerSystem", "open_server"]

PLAIN = ("floor", "ceiling")
SYMMETRIC = ("symmetric_full", "symmetric_compressed")
ONLY_LOCAL = ("scd", "rapid")


def open_server(options: SystemOptions) -> ServerSystem:
    """The system at `options.url`; asks the server what it is.

    Raises what `probe` does, and ConfigurationError for a model that it does not serve.
    """
    connection = ConnectionOptions(
        base_url=options.url or "", api_key=options.api_key, timeout_s=options.timeout_s
    )
    return ServerSystem(options, probe(connection))


class ServerSystem(System):
    """A server under test. Costs of what it computed are modelled from its usage and reports."""

    def __init__(self, options: SystemOptions, facts: ServerFacts) -> None:
        super().__init__(llmlingua=options.llmlingua, device=None)
        self._options, self._facts = options, facts
        info = facts.asymspec
        self._verifier = options.model or (info.verifier if info is not None else _only(facts, options))
        self._drafter = options.drafter_model or (info.drafter if info is not None else None)
        self._check_served(self._verifier, "model")
        if options.drafter_model is not None:
            self._check_served(options.drafter_model, "drafter_model")
        self._backend = HTTPBackend(
            options.url or "",
            api_key=options.api_key,
            model=self._verifier,
            on_missing_asymspec="error" if info is not None else "warn",
            timeout_s=options.timeout_s,
        )
        self.identity = {
            "kind": "openai" if info is None else "asymspec",
            "url": self._backend.base_url,
            "server": (info.server if info is not None else None),
            "server_version": facts.version,
            "verifier": self._verifier,
            "drafter": self._drafter,
            "verifier_params": options.verifier_params,
            "drafter_params": options.drafter_params,
            "dtype": None,
            "device": None,
            "counter": self.tokens.counter.name,
            "llmlingua": options.llmlingua,
            "sees_images": options.sees_images,
            **versions("torch", "transformers"),
        }
        arms = {*PLAIN, *(("drafter",) if self._serves_drafter else ())}
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
            return f"{where} that serves no drafter by itself; name one that it serves with --drafter-model"
        if self._facts.asymspec is None:
            return f"{where}, which answers {', '.join(sorted(self.arms))} only"
        return f"{where}, whose modes are {', '.join(self._facts.asymspec.modes)}"

    def answering(self, arm: ArmSpec) -> Answering:
        if (reason := self.refusal(arm)) is not None:
            raise refused(arm, reason)
        options = arm.asymspec_options()
        speaks = self._facts.asymspec is not None
        if arm.name == "drafter":
            return Answering(
                backend=self.plain("drafter"),
                put=by_options(options),
                mode=arm.name,
                only_model="drafter",
                salts=speaks,
                streams=speaks,
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
        if self._drafter is None or not self._serves_drafter:
            raise ConfigurationError("the server serves no drafter by itself; name one with --drafter-model")
        return self._backend.with_model(self._drafter).with_arm("ceiling")

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

    @property
    def _serves_drafter(self) -> bool:
        return self._drafter is not None and self._drafter in self._facts.models

    @property
    def _knows_all_rules(self) -> bool:
        return self._facts.asymspec is not None and set(MODES) <= set(self._facts.asymspec.modes)

    def _check_served(self, name: str, field: str) -> None:
        if self._facts.models and name not in self._facts.models:
            served = ", ".join(self._facts.models)
            raise ConfigurationError(f"{field}={name!r} is not served there; models: {served}")

    def _sees_images(self, arm: ArmSpec) -> bool:
        return self._options.sees_images

    def _count(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int | None:
        count = self._backend.prompt_counter
        if count is None:
            return None
        try:
            return count(messages, tools)
        except BackendError:  # a server that does not count is no failure of the arm
            return None


def _only(facts: ServerFacts, options: SystemOptions) -> str:
    if len(facts.models) == 1:
        return facts.models[0]
    served = ", ".join(facts.models) or "none by name"
    raise ConfigurationError(f"model: name the verifier with --model; {options.url} serves {served}")
