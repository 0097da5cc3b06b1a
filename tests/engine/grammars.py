"""What grammars are checked against: schemas at random, a validator of its own, masks without a mask.

`allowed` asks llguidance about one token at a time, on a matcher that has read nothing but the text, so it
shares neither bitmasks nor state with the engine.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from asymspec_agents.engine.answer_grammar import AnswerMarks, answer_grammar
from asymspec_agents.engine.grammar import Grammar, GrammarCompiler

from .naive import Vector
from .tiny_folder import byte_tokenizer

__all__ = ["NUM_IDS", "MaskedReader", "compiler", "fits", "json_grammar", "schemas"]

NUM_IDS = 258  # bytes and two special tokens


@functools.cache
def compiler() -> GrammarCompiler:
    """Over the small models' tokenizer."""
    return GrammarCompiler(byte_tokenizer())


def json_grammar(schema: dict[str, Any]) -> Grammar:
    """The grammar of a response_format with that schema."""
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    source = answer_grammar((), None, form, AnswerMarks)
    assert source is not None
    return compiler().compile(source)


class MaskedReader:
    """A naive verifier whose forbidden tokens have no probability, the rest being normal again."""

    def __init__(
        self, reader: Any, grammar: Grammar, eos_token_ids: frozenset[int], num_ids: int = NUM_IDS
    ) -> None:
        self._reader = reader
        self._num_ids = num_ids
        self._grammar = grammar
        self._eos_token_ids = eos_token_ids
        self._memo: dict[tuple[int, ...], NDArray[np.bool_] | None] = {}

    def allowed(self, text: Sequence[int]) -> NDArray[np.bool_] | None:
        """Ids that may follow the text [vocab]; None behind its end, or where it broke the grammar."""
        key = tuple(text)
        if key not in self._memo:
            state = self._grammar.root.deep_copy()
            ended = any(token in self._eos_token_ids for token in key) or not state.consume_tokens(list(key))
            found = np.zeros(self._num_ids, dtype=bool)
            if not ended:
                found[:] = [state.validate_tokens([token]) == 1 for token in range(self._num_ids)]
                found[self._grammar.end_token] = False
                ended = not found.any()
                if state.is_accepting():
                    found[list(self._eos_token_ids)] = True
            self._memo[key] = None if ended else found
        return self._memo[key]

    def __call__(self, text: Sequence[int], vocab_size: int) -> Vector:
        row: Vector = self._reader(text, vocab_size)
        allowed = self.allowed(text)
        if allowed is None:
            return row
        masked = np.where(allowed[:vocab_size], row, -np.inf)
        best = masked.max()
        normal: Vector = masked - best - np.log(np.exp(masked - best).sum())
        return normal


SCALARS = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.integers(0, 120).map(lambda top: {"type": "integer", "minimum": -3, "maximum": top}),
    st.integers(0, 3).map(lambda most: {"type": "string", "maxLength": most}),
    st.lists(
        st.one_of(st.text(max_size=4), st.integers(-9, 99), st.booleans(), st.none()), min_size=1, max_size=3
    ).map(lambda values: {"enum": values}),
)


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.builds(
        lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 2)
    )
    names = st.one_of(st.sampled_from(["a", "b"]), st.text(max_size=3))
    objects = st.builds(
        lambda properties, count: {
            "type": "object",
            "properties": properties,
            "required": list(properties)[:count],
            "additionalProperties": False,
        },
        st.dictionaries(names, inner, max_size=2),
        st.integers(0, 2),
    )
    either = st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": some})
    return st.one_of(lists, objects, either)


schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(SCALARS, _nested, max_leaves=4)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a JSON value is what one of the schemas above describes."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return json.dumps(value) in [json.dumps(one) for one in schema["enum"]]
    kind = schema["type"]
    if kind in ("boolean", "null"):
        return isinstance(value, bool) if kind == "boolean" else value is None
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if kind == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    if kind == "array":
        return (
            isinstance(value, list)
            and len(value) <= schema["maxItems"]
            and all(fits(item, schema["items"]) for item in value)
        )
    return (
        isinstance(value, dict)
        and set(schema["required"]) <= value.keys() <= schema["properties"].keys()
        and all(fits(item, schema["properties"][name]) for name, item in value.items())
    )
