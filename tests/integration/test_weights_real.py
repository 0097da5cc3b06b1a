"""The presets as they were fetched and converted: tokenizers, templates and first answers.

Uses the cache (ASYMSPEC_CACHE or the user's); fetches nothing.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Tokenizer,
)

from asymspec_agents import weights
from asymspec_agents.engine.gguf_family import repair_chat_template
from tests.presets import preset_folder

pytestmark = pytest.mark.full

QWEN = ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
QWEN_TEMPLATE_SHA256 = "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f"
"""Of the 0.5B file's template, which upstream publishes for both sizes."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather of a "city" <now>',
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
                "required": ["city"],
            },
        },
    }
]
CALL = {"type": "function", "id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
CONVERSATIONS: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "hi {{ not_a_variable }}"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "天气?"}],
    [
        {"role": "user", "content": "Weather in Oslo and Rome?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"t": 3}'},
        {"role": "tool", "tool_call_id": "c1", "content": "<b>12</b>"},
        {"role": "assistant", "content": "Cold and mild.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": "Now 4."},
        {"role": "user", "content": "Thanks"},
    ],
)


def tokenizer_of(name: str) -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(preset_folder(name))
    return loaded


def varied_texts() -> Iterator[str]:
    """About 1.5 million characters: code, JSON, prose, numbers, spaces, and every kind of Unicode."""
    for module in (inspect, json, random, gc, hashlib, torch.nn.functional, torch.optim):
        source = Path(getattr(module, "__file__", None) or __file__).read_text("utf-8")
        yield source
        yield json.dumps(source.splitlines())
    generator = random.Random(20)
    assigned = [
        chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")
    ]
    for length in (1, 2, 3, 10, 100, 1000):
        for _ in range(200):
            yield "".join(generator.choices(assigned, k=length))
    yield "".join(assigned)
    pool = (
        "12345",
        "3.14",
        "\r\n",
        "\n\n",
        "   ",
        "\t",
        "'LL",
        "don't",
        "<tool_call>",
        "<|im_end|>",
        "e\u0301",
        "Å",
        "👩🏽‍💻",
        "漢字",
    )
    for _ in range(500):
        yield "".join(generator.choices(pool, k=30))


def test_the_pair_shares_one_tokenizer() -> None:
    large, small = (tokenizer_of(name) for name in QWEN)
    assert (preset_folder(QWEN[0]) / "tokenizer.json").read_bytes() == (
        preset_folder(QWEN[1]) / "tokenizer.json"
    ).read_bytes()
    for text in varied_texts():
        ids = large(text).input_ids
        assert ids == small(text).input_ids
        # Its own normaliser, whose Unicode may be newer than Python's; that it is NFC is tested elsewhere.
        assert large.decode(ids) == large.backend_tokenizer.normalizer.normalize_str(text)


def test_qwen_tokenizer_is_the_published_one() -> None:
    """The same vocabulary and merges in transformers' own Qwen2 class give the same ids."""
    ours = tokenizer_of(QWEN[1])
    content = json.loads((preset_folder(QWEN[1]) / "tokenizer.json").read_text("utf-8"))
    theirs = Qwen2Tokenizer(
        vocab=content["model"]["vocab"], merges=[tuple(merge) for merge in content["model"]["merges"]]
    )
    specials = [(token["content"], token["special"]) for token in content["added_tokens"]]
    theirs.add_tokens([text for text, special in specials if not special])
    theirs.add_tokens([text for text, special in specials if special], special_tokens=True)
    for text in varied_texts():
        assert ours(text).input_ids == theirs(text).input_ids
    assert len(ours) == 151_665
    assert [ours.eos_token_id, ours.pad_token_id, ours.bos_token_id] == [151_645, 151_643, None]
    plain = [text for text, special in specials if not special]
    assert plain == [
        "<tool_call>",
        "</tool_call>",
        "<|fim_prefix|>",
        "<|fim_middle|>",
        "<|fim_suffix|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
    ]


def test_smollm_tokenizer_keeps_text_and_splits_digits() -> None:
    tokenizer = tokenizer_of("smollm2-135m")
    # As published, this vocabulary has no token for these control characters and drops them.
    dropped = dict.fromkeys(b"\x04\x06\x13\x14\x16\x1d")
    for text in varied_texts():
        assert tokenizer.decode(tokenizer(text).input_ids) == text.translate(dropped)
    assert tokenizer.tokenize("in 2026") == ["in", "Ġ", "2", "0", "2", "6"]
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id) == (2, 2, 1)


def test_both_qwen_templates_are_the_right_one() -> None:
    large, small = ((preset_folder(name) / "chat_template.jinja").read_text("utf-8") for name in QWEN)
    assert hashlib.sha256(small.encode()).hexdigest() == QWEN_TEMPLATE_SHA256
    assert repair_chat_template(small) == small
    assert large == small
    assert r"{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>" in large


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=["user", "system", "calls"])
def test_both_render_alike(conversation: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> None:
    rendered = [
        tokenizer_of(name).apply_chat_template(
            conversation, tools=tools, add_generation_prompt=True, tokenize=False
        )
        for name in QWEN
    ]
    assert rendered[0] == rendered[1]
    assert rendered[0].endswith("<|im_start|>assistant\n")
    assert "{{" not in rendered[0].replace("{{ not_a_variable }}", "")
    for message in conversation:
        assert message["content"] in rendered[0]
    num_calls = sum(len(message.get("tool_calls", ())) for message in conversation)
    assert (
        rendered[0].count('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}') == num_calls
    )


@pytest.mark.parametrize(
    ("name", "tools", "question", "answer"),
    [
        ("smollm2-135m", None, "What is the capital of France?", "The capital of France is Paris.<|im_end|>"),
        ("qwen2.5-coder-0.5b", None, "What is the capital of France? One word.", "Paris<|im_end|>"),
        ("qwen2.5-coder-1.5b", None, "What is the capital of France? One word.", "Paris<|im_end|>"),
        (
            "qwen2.5-coder-1.5b",
            TOOLS,
            "What's the weather in Oslo in celsius?",
            '{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}',
        ),
    ],
)
def test_first_answers_make_sense(
    name: str, tools: list[dict[str, Any]] | None, question: str, answer: str
) -> None:
    tokenizer = tokenizer_of(name)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(preset_folder(name))
    assert model.dtype == torch.bfloat16
    assert model.generation_config.do_sample is False
    assert model.generation_config.temperature in (None, 1.0)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tools=tools, add_generation_prompt=True, tokenize=False
    )
    inputs = tokenizer(prompt, return_tensors="pt")
    output = model.generate(**inputs, max_new_tokens=40)  # type: ignore[operator]
    assert answer in tokenizer.decode(output[0, inputs.input_ids.shape[1] :])


def test_manifests_tell_where_the_weights_are_from() -> None:
    for name, preset in weights.PRESETS.items():
        manifest = json.loads((preset_folder(name) / "asymspec-model.json").read_text("utf-8"))
        assert manifest["sha256"] == preset.sha256
        assert manifest["source_model"] == preset.source_model
        size = sum(path.stat().st_size for path in preset_folder(name).iterdir())
        assert abs(size - preset.converted_bytes) < 0.02 * size  # what the disk check counts on
