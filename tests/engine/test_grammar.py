"""Masks of grammars: what may come next, whatever was drafted, and what ends an answer."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.engine.grammar import GrammarCompiler, GrammarSource, Matcher, SchemaPart
from asymspec_agents.errors import ConfigurationError, MissingDependencyError, UnsupportedRequestError

from .grammars import NUM_IDS, MaskedReader, compiler, fits, json_grammar, schemas
from .tiny import Letters
from .tiny_folder import WEATHER, ask, byte_tokenizer, random_backend

EOS = 257
SPACE = frozenset(byte_tokenizer().encode(" \n\r\t"))


def allowed(matcher: Matcher, drafts: list[int], places: int) -> list[set[int]]:
    logits = matcher.mask(torch.zeros((1, places, NUM_IDS + 6)), drafts)
    assert logits.shape == (1, places, NUM_IDS)
    return [{i for i, logit in enumerate(row) if logit > -math.inf} for row in logits[0].tolist()]


def ids(text: str) -> list[int]:
    return list(byte_tokenizer().encode(text))


@pytest.mark.parametrize("eos", [frozenset({EOS}), frozenset[int](), frozenset({EOS, 256})], ids=len)
def test_a_choice_of_words_byte_by_byte(eos: frozenset[int]) -> None:
    """A language small enough to be written down: every continuation of it, and nothing else."""
    words = ["red", "re", "green", "é"]
    language = [ids(json.dumps(word, ensure_ascii=False)) for word in words]
    for word in language:
        matcher = json_grammar({"enum": words}).start(eos, NUM_IDS)
        for at, token in enumerate(word):
            following = {other[at] for other in language if other[:at] == word[:at]}
            assert allowed(matcher, [], 1) == [following]
            assert matcher.advance([token]) == (1 if at == len(word) - 1 else None)
        assert matcher.place.is_complete


def test_eos_is_allowed_exactly_where_the_answer_may_end() -> None:
    matcher = json_grammar({"type": "integer", "minimum": 0, "maximum": 120}).start(frozenset({EOS}), NUM_IDS)
    for digit, may_end in (("1", True), ("2", True)):
        assert (EOS in allowed(matcher, [], 1)[0]) == (digit == "2")
        assert matcher.advance(ids(digit)) is None
        assert (EOS in allowed(matcher, [], 1)[0]) == may_end
    assert allowed(matcher, [], 1) == [{EOS, *ids("0")}]
    assert matcher.advance(ids("0")) == 1  # 120 is the largest: nothing more can come
    # where EOS is drafted, nothing behind it matters
    matcher = json_grammar({"type": "integer", "minimum": 0, "maximum": 120}).start(frozenset({EOS}), NUM_IDS)
    matcher.advance(ids("1"))
    first, second = allowed(matcher, [EOS], 2)
    assert EOS in first
    assert second == set(range(NUM_IDS))
    assert matcher.advance([EOS, 3, 4]) is None


def test_the_tokenizers_own_end_is_no_end_of_a_model_that_has_another() -> None:
    matcher = json_grammar({"type": "integer"}).start(frozenset({256}), NUM_IDS)  # <|im_start|>
    matcher.advance(ids("1"))
    (found,) = allowed(matcher, [], 1)
    assert 256 in found
    assert EOS not in found


def test_white_space_is_bounded() -> None:
    matcher = json_grammar({"type": "object"}).start(frozenset(), NUM_IDS)
    matcher.advance(ids('{"a"'))
    for mark in (":", "1,"):
        matcher.advance(ids(mark))
        assert allowed(matcher, [], 1)[0] > SPACE
        matcher.advance(ids(" " * 16))
        assert not allowed(matcher, [], 1)[0] & SPACE


def test_a_forbidden_draft_leaves_what_is_behind_it_alone() -> None:
    matcher = json_grammar({"enum": ["ab"]}).start(frozenset(), NUM_IDS)
    every = set(range(NUM_IDS))
    assert allowed(matcher, ids('"xb'), 4) == [set(ids('"')), set(ids("a")), every, every]
    assert allowed(matcher, ids('"ab"'), 4) == [{token} for token in ids('"ab"')]
    assert allowed(matcher, ids('"ab"zz'), 6) == [*({token} for token in ids('"ab"')), every, every]
    assert allowed(matcher, [NUM_IDS + 1, 0], 3) == [set(ids('"')), every, every]  # no token at all
    assert matcher.advance(ids('"ab"zz')) == 4


@settings(deadline=None, max_examples=60)
@given(schema=schemas, seed=st.integers(0, 2**32), eos=st.sampled_from([frozenset({EOS}), frozenset[int]()]))
def test_any_walk_is_a_document_of_the_schema(schema: dict[str, Any], seed: int, eos: frozenset[int]) -> None:
    """Blocks of random drafts and tokens: masks are those of the text alone, and its end is a document."""
    grammar = json_grammar(schema)
    matcher, alone = grammar.start(eos, NUM_IDS), MaskedReader(None, grammar, eos)
    chance, text = random.Random(seed), list[int]()

    def pick(among: set[int]) -> int:
        return chance.choice(
            sorted(among - SPACE) if among - SPACE and chance.random() < 0.9 else sorted(among)
        )

    while len(text) < 300:
        drafts: list[int] = []
        for _ in range(chance.randrange(5)):
            known = alone.allowed([*text, *drafts])
            is_wild = known is None or chance.random() < 0.2
            drafts.append(
                chance.randrange(NUM_IDS) if is_wild else pick({int(i) for i in known.nonzero()[0]})
            )
        places = len(drafts) + chance.randrange(2) or 1
        rows = allowed(matcher, drafts, places)
        for place, row in enumerate(rows):
            known = alone.allowed([*text, *drafts[:place]])
            assert row == (set(range(NUM_IDS)) if known is None else {int(i) for i in known.nonzero()[0]})
        kept: list[int] = []
        for row, draft in zip(rows, drafts, strict=False):
            if draft not in row or draft in eos or chance.random() < 0.2:
                break
            kept.append(draft)
            if alone.allowed([*text, *kept]) is None:
                break
        if alone.allowed([*text, *kept]) is not None and len(kept) < len(rows):
            kept.append(pick(rows[len(kept)]))
        complete_at = matcher.advance(kept)
        text += kept
        if complete_at is not None or (kept and kept[-1] in eos):
            assert complete_at in (None, len(kept))
            document = byte_tokenizer().decode(text, skip_special_tokens=True)
            assert fits(json.loads(document, strict=False), schema)
            return


def test_texts_of_tokens_that_look_like_markers_can_be_written() -> None:
    """A tokenizer would write `<|im_end|>` as the token that ends answers; the grammar wants its letters."""
    grammar = json_grammar({"const": "<|im_end|>"})
    matcher = grammar.start(frozenset({EOS}), NUM_IDS)
    for letter in '"<|im_end|>"':
        (found,) = allowed(matcher, [], 1)
        (token,) = found
        assert byte_tokenizer().decode([token]) == letter
        matcher.advance([token])
    assert matcher.place.is_complete


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "strang"}, "strang"),
        ({"type": 5}, "type must be"),
        ({"enum": []}, "Unsatisfiable"),
        ({"$ref": "https://example.com/x.json"}, "does not fetch"),
        ({"$ref": "file:///etc/passwd"}, "does not fetch"),
        ({"$ref": "#/nowhere"}, "does not exist"),
        ({"$ref": "#"}, "no token|NoExtension"),
        ({"not": {}}, "not"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "pattern": "("}, "regex"),
        ({"type": "string", "format": "shoe-size"}, "shoe-size"),
        ({"minimum": "a", "type": "integer"}, "minimum"),
        ({"properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}, "too large"),
        ({"enum": [f"word {i}" for i in range(100_000)]}, "too"),
        ({"type": "integer", "multipleOf": 987654321}, "fuel|too"),
        ({"const": "\ud800"}, "."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_schema_that_cannot_be_enforced_is_refused_with_its_reason(schema: Any, reason: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"^response_format\S* cannot be enforced: .*({reason})"
    ) as caught:
        json_grammar(schema)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_deep_schemas_end_in_an_error_not_in_a_crash() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ConfigurationError, match="recursion"):
        json_grammar(schema)
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(ConfigurationError, match="recursion"):
        json_grammar(schema)
    while schema.get("items"):  # so that it is freed without recursion, too
        schema = schema.pop("items")


def test_an_answer_in_a_dead_end_says_so() -> None:
    """A tokenizer without the bytes of a word cannot write it."""
    matcher = json_grammar({"const": "aé"}).start(frozenset(), 127)  # as if the models knew fewer ids
    known = ids('"a')
    assert allowed_below(matcher, 127) == {known[0]}
    matcher.advance(known)
    with pytest.raises(UnsupportedRequestError, match=r"^response_format: the answer cannot go on: no token"):
        matcher.mask(torch.zeros((1, 1, 127)), [])
    # behind a draft it is no error yet: the draft may fall
    matcher = json_grammar({"enum": ["aé", "ab"]}).start(frozenset(), 127)
    matcher.advance(known[:1])
    matcher.mask(torch.zeros((1, 2, 127)), known[1:])


def allowed_below(matcher: Matcher, vocab_size: int) -> set[int]:
    row = matcher.mask(torch.zeros((1, 1, vocab_size)), [])[0, 0]
    return {i for i, logit in enumerate(row.tolist()) if logit > -math.inf}


def test_grammars_are_compiled_once_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = GrammarCompiler(byte_tokenizer())
    made: list[str] = []
    compile_one = mine._compile
    monkeypatch.setattr(mine, "_compile", lambda source: made.append(source.lark) or compile_one(source))
    sources = [GrammarSource("test", f'start: "{number}"') for number in range(40)]
    first = mine.compile(sources[0])
    assert mine.compile(GrammarSource("test", sources[0].lark)) is first
    assert made == [sources[0].lark]
    for source in sources[1:]:
        mine.compile(source)
    assert len(made) == 40
    mine.compile(sources[-1])
    assert len(made) == 40
    assert mine.compile(sources[0]) is not first
    assert len(made) == 41


def test_markers_are_tokens_where_the_tokenizer_has_them() -> None:
    assert compiler().term("<|im_end|>") == f"<[{EOS}]>"
    assert compiler().term("<tool_call>") == '"<tool_call>"'
    assert compiler().term('a"\n') == '"a\\"\\n"'
    with_tags = GrammarCompiler(byte_tokenizer(["<tool_call>", "word"]))
    assert with_tags.term("<tool_call>") == "<[258]>"
    assert with_tags.term("word") == '"word"'  # an ordinary token is ordinary text


def test_a_tokenizer_grammars_do_not_work_with_is_named() -> None:
    with pytest.raises(ConfigurationError, match="tokenizer"):
        GrammarCompiler(Letters()).compile(GrammarSource("test", 'start: "a"'))
    with pytest.raises(ConfigurationError, match=r"^part cannot be enforced"):
        compiler().compile(GrammarSource("test", "start: %json {}", (SchemaPart("part", "not JSON"),)))


def test_without_llguidance_only_grammars_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("llguidance", "llguidance.hf"):
        monkeypatch.setitem(sys.modules, name, None)
    mine = GrammarCompiler(byte_tokenizer())
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[engine\]"):
        mine.compile(GrammarSource("test", 'start: "a"'))
    assert random_backend().generate(ask(tools=(WEATHER,), max_tokens=2)).usage.completion_tokens == 2
