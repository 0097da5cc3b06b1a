"""Which tokens may come next where an answer must keep to a grammar. Grammars are compiled by llguidance.

A mask is a function of the answer's tokens alone: nothing is forced or skipped ahead, so a text under a
grammar depends on block borders no more than any other.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigurationError, MissingDependencyError, UnsupportedRequestError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["Grammar", "GrammarCompiler", "GrammarSource", "Matcher", "SchemaPart"]

NUM_CACHED = 32
NO_FORCING = '%llguidance {"no_forcing": true}\n'  # else a mask would follow one tokenization of fixed text


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """A JSON schema inside a grammar, as JSON text, and what to call it in an error."""

    origin: str
    schema: str


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """A grammar in Lark's notation and the schemas it was made of; `origin` names it in errors."""

    origin: str
    lark: str
    parts: tuple[SchemaPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Grammar:
    """A compiled grammar, ready to be followed any number of times."""

    origin: str
    root: LLMatcher
    end_token: int  # what llguidance itself takes for the end

    def start(self, eos_token_ids: frozenset[int], vocab_size: int) -> Matcher:
        """A matcher at the beginning of an answer that these tokens end."""
        return Matcher(self, eos_token_ids, vocab_size)


class GrammarCompiler:
    """Compiles grammars over one tokenizer, and keeps the last few by content. Threads may share it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._compiled: OrderedDict[GrammarSource, Grammar] = OrderedDict()

    def term(self, text: str) -> str:
        """The text in Lark's notation: the token itself where the tokenizer has it as a marker of its own."""
        token = self._tokenizer.convert_tokens_to_ids(text)
        is_marker = isinstance(token, int) and self._tokenizer.convert_ids_to_tokens(token) == text
        if is_marker and self._ll_tokenizer.is_special_token(token):
            return f"<[{token}]>"
        return json.dumps(text, ensure_ascii=False)

    def compile(self, source: GrammarSource) -> Grammar:
        """The grammar; raises ConfigurationError saying what of it cannot be compiled, and why."""
        with self._lock:
            if source not in self._compiled:
                self._compiled[source] = self._compile(source)
            self._compiled.move_to_end(source)
            while len(self._compiled) > NUM_CACHED:
                self._compiled.popitem(last=False)
            return self._compiled[source]

    def _compile(self, source: GrammarSource) -> Grammar:
        tokenizer = self._ll_tokenizer
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(verbose_errors=False)
        for part in source.parts:
            try:
                alone = LLMatcher.grammar_from_json_schema(part.schema)
                reason = LLMatcher.validate_grammar(alone, tokenizer, limits=limits)
            except ValueError as error:
                reason = str(error)
            if reason:
                raise ConfigurationError(f"{part.origin} cannot be enforced: {_brief(reason)}")
        root = LLMatcher(tokenizer, NO_FORCING + source.lark, log_level=0, limits=limits)
        grammar = Grammar(source.origin, root, tokenizer.eos_token)
        place = grammar.start(frozenset(), tokenizer.vocab_size).place
        if place.dead_end is not None:
            raise ConfigurationError(f"{source.origin} cannot be enforced: {place.dead_end}")
        return grammar

    @cached_property
    def _ll_tokenizer(self) -> LLTokenizer:
        try:
            from llguidance.hf import from_tokenizer
        except ImportError as error:
            raise MissingDependencyError("llguidance", "engine") from error
        try:
            return from_tokenizer(self._tokenizer)
        except ValueError as error:
            raise ConfigurationError(f"grammars do not work with this model's tokenizer: {error}") from error


@dataclass(frozen=True, slots=True)
class Place:
    """What may come at one place: allowed ids [vocab]; whether the answer is over; why nothing can come."""

    allowed: Tensor
    is_complete: bool
    dead_end: str | None


class Matcher:
    """How far an answer has come in its grammar. An EOS token is allowed exactly where it may end."""

    def __init__(self, grammar: Grammar, eos_token_ids: frozenset[int], vocab_size: int) -> None:
        self._grammar = grammar
        self._eos_token_ids = eos_token_ids
        self._vocab_size = vocab_size
        self._state = grammar.root.deep_copy()
        # Places behind drafts: read for a mask, and needed again where the drafts stand.
        self._ahead: dict[tuple[int, ...], Place] = {}
        self.place = self._read(self._state)

    def mask(self, logits: Tensor, drafts: Sequence[int]) -> Tensor:
        """Logits [1, places, vocab] with -inf at ids forbidden behind the answer and drafts[:place].

        Places behind a forbidden draft, or behind the answer's end, are left alone: no block keeps them.
        Raises UnsupportedRequestError where the answer has come to a dead end.
        """
        if self.place.dead_end is not None:
            raise UnsupportedRequestError(
                f"{self._grammar.origin}: the answer cannot go on: {self.place.dead_end}"
            )
        allowed = torch.ones((logits.shape[1], self._vocab_size), dtype=torch.bool)
        state, place = self._state.deep_copy(), self.place
        for index in range(logits.shape[1]):
            if index:
                draft = drafts[index - 1]
                if draft in self._eos_token_ids or not (draft < self._vocab_size and place.allowed[draft]):
                    break
                state.consume_token(draft)
                place = self._ahead[tuple(drafts[:index])] = self._read(state)
            if place.is_complete or place.dead_end is not None:
                break
            allowed[index] = place.allowed
        return logits[..., : self._vocab_size].masked_fill(~allowed.to(logits.device), -torch.inf)

    def advance(self, tokens: Sequence[int]) -> int | None:
        """Takes in a block; how many of its tokens complete the answer, None where it goes on.

        At an EOS token it goes no further: the answer ends there anyway.
        """
        for number, token in enumerate(tokens, 1):
            if token in self._eos_token_ids:
                return None
            self._state.consume_token(token)
            known = self._ahead.get(tuple(tokens[:number]))
            self.place = self._read(self._state) if known is None else known
            if self.place.is_complete:
                return number
        self._ahead.clear()
        return None

    def _read(self, state: LLMatcher) -> Place:
        bits = np.frombuffer(state.compute_bitmask(), dtype=np.uint8)
        found = np.unpackbits(bits, bitorder="little")[: self._vocab_size]
        allowed = torch.zeros(self._vocab_size, dtype=torch.bool)
        allowed[: len(found)] = torch.from_numpy(found).bool()
        self._set(allowed, (self._grammar.end_token,), False)  # the model may end answers by other tokens
        goes_on = bool(allowed.any())
        may_end = state.is_accepting()
        if may_end:
            self._set(allowed, self._eos_token_ids, True)
        dead_end = None
        if not may_end and not goes_on:
            dead_end = _brief(state.get_error()) or "no token of the vocabulary fits"
        return Place(allowed, may_end and not goes_on, dead_end)

    def _set(self, allowed: Tensor, tokens: Iterable[int], value: bool) -> None:
        for token in tokens:
            if token < self._vocab_size:
                allowed[token] = value


def _brief(reason: str) -> str:
    """llguidance's message in one line, without the grammar that it quotes."""
    text = " ".join(reason.split("\n<non-verbose/>")[0].split())
    return text if len(text) <= 300 else text[:300] + "…"
