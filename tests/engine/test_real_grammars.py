"""Grammars on real models and tokenizers: their own call tokens, and exactness in fp32."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.answer import AnswerFormat
from asymspec_agents.engine.answer_grammar import AnswerMarks, answer_grammar
from asymspec_agents.engine.grammar import GrammarCompiler
from asymspec_agents.engine.load import load_pair, load_tokenizer
from asymspec_agents.messages import Message, parse_tools
from asymspec_agents.protocol import AsymSpecOptions
from tests.presets import preset_folder

from .grammars import MaskedReader
from .naive import Comparison, Naive, Reader, Rows, compare
from .runs import run
from .tiny_folder import WEATHER

pytestmark = pytest.mark.full

FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "summary",
        "schema": {
            "type": "object",
            "properties": {"title": {"type": "string", "maxLength": 24}, "pages": {"type": "integer"}},
            "required": ["title", "pages"],
            "additionalProperties": False,
        },
    },
}
TEXT = "A report of forty-two pages on the weather of Rome, which was fine. "


def test_qwens_calls_begin_with_its_own_token() -> None:
    tokenizer = load_tokenizer(preset_folder("qwen2.5-coder-0.5b"))
    compiler = GrammarCompiler(tokenizer)
    marks = AnswerMarks.of(AnswerFormat.of(tokenizer), "<|im_start|>assistant\n", compiler.term)
    source = answer_grammar(parse_tools((WEATHER,)), "required", None, lambda: marks, max_calls=1)
    assert source is not None
    matcher = compiler.compile(source).start(frozenset({151645}), len(tokenizer))
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "<tool_call> Zürich 東京"}}\n</tool_call>'
    opening, closing = (tokenizer.convert_tokens_to_ids(tag) for tag in ("<tool_call>", "</tool_call>"))
    assert matcher.place.allowed.nonzero().flatten().tolist() == [opening]
    inner = tokenizer.encode(text[len("<tool_call>") : -len("</tool_call>")].replace("<tool_call> ", ""))
    for token in (opening, *inner):
        assert matcher.place.allowed[token]
        assert not matcher.place.allowed[151645]
        assert matcher.advance([token]) is None
    assert matcher.place.allowed.nonzero().flatten().tolist() == [closing]
    assert matcher.advance([closing]) == 1


def test_an_answer_under_a_grammar_is_the_naive_one() -> None:
    folder = preset_folder("smollm2-135m")
    pair = load_pair(folder, folder, dtype="float32", device="cpu")
    engine = pair.engine
    source = answer_grammar((), None, FORM, AnswerMarks)
    assert source is not None
    grammar = engine.grammars.compile(source)
    views = tuple(
        pair.template.ids([Message(role="user", content=f"{text}Give title and pages.")])
        for text in (TEXT * 4, TEXT)
    )
    full, compressed = (tuple(view) for view in views)
    eos = engine.models["verifier"].eos_token_ids
    rows = Rows(engine.models["verifier"].module)
    readers = Reader(rows, compressed), Reader(rows, full), Reader(rows, compressed)
    masked: Any = MaskedReader(readers[0], grammar, eos, engine.vocab_size)
    seen = Comparison()
    for options in ({"gamma": 1.15}, {"gamma": 1.15, "num_draft_tokens": 4, "bonus": "verifier"}):
        chosen = AsymSpecOptions.of(**options)
        result = run(engine, (list(full), list(compressed)), max_tokens=64, grammar=grammar, **options)
        naive = Naive(
            chosen.rule(), chosen.num_draft_tokens, chosen.bonus, engine.vocab_size, masked, *readers[1:]
        )
        compare(result, naive, seen)
        assert result.outcome.finish_reason == "stop"
        assert list(json.loads(result.text)) == ["title", "pages"]
    seen.check_excuses()
    assert min(seen.num_accepted, seen.num_refused) > 0


def test_the_default_pair_calls_when_it_must() -> None:
    for name in ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"):
        preset_folder(name)
    backend = LocalBackend.load("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", device="cpu")
    messages: Any = [{"role": "user", "content": TEXT * 2 + "What is the weather in Oslo?"}]
    edits = [{"message": 0, "text": "What is the weather in Oslo?"}]
    named = {"type": "function", "function": {"name": "weather"}}
    for asymspec in (None, {"edits": edits}):
        response = backend.generate(
            ChatRequest(
                messages=messages,
                tools=parse_tools((WEATHER,)),
                tool_choice=named,
                asymspec=asymspec,  # type: ignore[arg-type]
                max_tokens=60,
            )
        )
        assert (response.content, response.finish_reason) == ("", "tool_calls")
        assert response.raw_text.startswith("<tool_call>\n{")
        (call,) = response.tool_calls
        assert call.function is not None
        assert json.loads(call.function.arguments)["city"].startswith("Oslo")
