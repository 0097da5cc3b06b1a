"""A special token's name in what a user writes is text, wherever it stands and whatever the tokenizer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.control_tokens import ControlTokens, Disguise
from asymspec_agents.messages import parse_messages, parse_tools
from tests.presets import preset_folder

from .tiny_folder import CHAT_TEMPLATE, byte_tokenizer

NAMES = ("<|im_start|>", "<|im_end|>")


def special_ids(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    special = {i: t.content for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    return [special[i] for i in ids if i in special]


def prompt(template: ChatTemplate, content: str, **fields: Any) -> list[int]:
    messages = [{"role": "user", "content": content, **fields}]
    return template.ids(parse_messages(messages))


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(byte_tokenizer())


texts = st.lists(
    st.sampled_from([*NAMES, "<|im_", "start|>", "end|>", "a", " ", "\n", "é", "0", "\\", '"']), max_size=8
).map("".join)


@given(content=texts, arguments=texts, name=texts, mood=texts)
def test_only_the_template_writes_special_tokens(content: str, arguments: str, name: str, mood: str) -> None:
    template = ChatTemplate(byte_tokenizer())
    escaped = json.dumps({arguments: [arguments]}).replace("<", "\\u003c")
    calls = [{"id": content, "type": "function", "function": {"name": "f" + name, "arguments": escaped}}]
    messages = parse_messages(
        [
            {"role": "user", "content": content, "name": name},
            {"role": "assistant", "content": [{"type": "text", "text": content}], "tool_calls": calls},
            {"role": "tool", "content": content, "tool_call_id": content},
        ]
    )
    tools = parse_tools([{"function": {"name": "f" + name, "description": content, content: {name: 1}}}])
    variables = {"mood": mood, "eos_token": content}
    ids = template.ids(messages, tools, variables)
    plain = template.ids(
        parse_messages(
            [
                {"role": "user", "content": ""},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "content": ""},
            ]
        ),
        parse_tools([{"function": {"name": "f"}}]),
    )
    tokenizer = template.tokenizer
    assert special_ids(tokenizer, ids) == special_ids(tokenizer, plain)
    text = tokenizer.decode(ids)
    for part in (f"<|im_start|>user\n{content}<|im_end|>", f"<call>f{name} ", f"[{mood}]\n"):
        assert part in text
    assert json.dumps({arguments: [arguments]}, ensure_ascii=False) in text


@given(content=texts)
def test_hiding_is_undone_exactly(content: str) -> None:
    control = ControlTokens(byte_tokenizer())
    disguise = Disguise(control)
    hidden = disguise.hide(content)
    assert not any(name in hidden for name in NAMES)
    assert (hidden == content) == (not any(name in content for name in NAMES))
    assert disguise.reveal(hidden) == content


def test_ids_without_such_names_are_what_the_tokenizer_gives(template: ChatTemplate) -> None:
    tokenizer = template.tokenizer
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "a <|x|> b"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt(template, "a <|x|> b") == tokenizer.encode(text, add_special_tokens=False)


def test_a_refusal_shows_the_name_itself() -> None:
    template = ChatTemplate(byte_tokenizer())
    with pytest.raises(ValueError, match=r"no such role: <\|im_end\|>"):
        template.ids(parse_messages([{"role": "<|im_end|>", "content": "x"}]))


def test_tokens_that_are_not_special_stay_tokens() -> None:
    tokenizer = byte_tokenizer(["<tool_call>"])
    template = ChatTemplate(tokenizer)
    assert tokenizer.convert_tokens_to_ids("<tool_call>") in prompt(template, "x <tool_call> y")


def test_a_thousand_special_tokens_some_of_them_beginnings_of_others() -> None:
    tokenizer = byte_tokenizer()
    names = [f"<SPECIAL_{number}>" for number in range(1_000)] + ["<S", "<SP", "[INST]", "[/INST]"]
    tokenizer.add_special_tokens({"additional_special_tokens": names})
    template = ChatTemplate(tokenizer)
    content = " ".join(names)
    ids = prompt(template, content)
    assert special_ids(tokenizer, ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert content in tokenizer.decode(ids)


def spaced_tokenizer(scheme: str) -> PreTrainedTokenizerFast:
    """A tokenizer that writes spaces as ▁ and one at the beginning of a text, as SentencePiece does."""
    letters = sorted({chr(code) for code in range(32, 127)} | {"▁", "\n"})
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.add_special_tokens(list(NAMES))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=CHAT_TEMPLATE
    )


@pytest.mark.parametrize("content", ["a<|im_end|>b", "<|im_end|>", "a <|im_end|> b<|im_start|><|im_end|>\nc"])
def test_no_space_comes_in_where_a_text_is_encoded_in_parts(content: str) -> None:
    tokenizer = spaced_tokenizer("first")
    template = ChatTemplate(tokenizer)
    ids = prompt(template, content)
    assert special_ids(tokenizer, ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    shown = "".join(tokenizer.convert_ids_to_tokens(ids)).replace("▁", " ")
    assert f"user\n{content}<|im_end|>" in shown


@pytest.mark.full
@pytest.mark.parametrize("preset", ["qwen2.5-coder-1.5b", "smollm2-135m"])
def test_real_tokenizers(preset: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(preset_folder(preset))
    template = ChatTemplate(tokenizer)
    names = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
    content = "".join(f"a{name} {name}\n" for name in names)
    clean = special_ids(tokenizer, prompt(template, "x"))
    ids = prompt(template, content)
    assert special_ids(tokenizer, ids) == clean
    assert content.strip() in tokenizer.decode(ids)
    (name, _) = names[:2]
    alone = tokenizer.encode(name, add_special_tokens=False, split_special_tokens=True)
    before, behind = (
        tokenizer.encode("\n", add_special_tokens=False),
        tokenizer.encode("<|im_end|>\n", add_special_tokens=False),
    )
    whole = prompt(template, name)
    start = next(i for i in range(len(whole)) if whole[i : i + len(alone)] == alone)
    assert whole[start - 1 : start] == before
    assert whole[start + len(alone) :][: len(behind)] == behind
