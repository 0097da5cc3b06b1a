"""Tiny models that read chats: a random pair saved as folders, and models that write a text they are given.

Both have a byte-level tokenizer (256 bytes and a few special tokens) and a ChatML-like template with tools.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from asymspec_agents.backends import ChatRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.engine import Engine, EngineOptions
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecRequest, apply_edits
from asymspec_agents.recording import NULL_RECORDER, Recorder

from .tiny import DISAGREEMENT, LOGIT_SCALE

__all__ = [
    "COMPRESSED",
    "FULL",
    "MAX_POSITIONS",
    "SHORT",
    "WEATHER",
    "ask",
    "byte_tokenizer",
    "random_backend",
    "save_model",
    "save_pair",
    "writing_backend",
]

SPECIAL = ("<|im_start|>", "<|im_end|>")
MAX_POSITIONS = 1536
CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role not in ["system", "user", "assistant", "tool"] -%}
{{ raise_exception("no such role: " + message.role) }}
{%- endif -%}
<|im_start|>{{ message.role }}
{{ message.content if message.content is not none else "" }}
{%- for call in message.tool_calls or [] -%}
{{ "\n" }}<call>{{ call.function.name }} {{ call.function.arguments | tojson }}</call>
{%- endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if mood is defined %}[{{ mood }}]
{% endif %}
{%- endif -%}
"""

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

FULL: tuple[Mapping[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What does the log say? " + "A line of the log. " * 6},
)
SHORT = ({"message": 1, "text": "What does the log say? A line …"},)
COMPRESSED = apply_edits(parse_messages(FULL), AsymSpecRequest(edits=SHORT).edits or ())


def ask(
    messages: Sequence[Any] = FULL,
    *,
    edits: Sequence[Any] | None = SHORT,
    options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> ChatRequest:
    """A request with its compressed view as edits; `edits` None leaves the asymspec object out."""
    asymspec = None if edits is None else AsymSpecRequest.model_validate({"edits": edits, **(options or {})})
    return ChatRequest(messages=tuple(messages), asymspec=asymspec, **{"max_tokens": 12, **fields})


def byte_tokenizer(pieces: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """A token for each byte, each special token and each of `pieces`, in this order of ids."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=CHAT_TEMPLATE
    )


def _config(vocab_size: int, hidden_size: int, **further: Any) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        bos_token_id=None,
        pad_token_id=None,
        **further,
    )


@functools.cache
def _random_pair() -> tuple[PreTrainedModel, PreTrainedModel]:
    """Verifier and drafter of random weights that often agree; their vocabulary is padded, EOS they lack."""
    pair = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        config = _config(
            272, 32, num_hidden_layers=2, max_position_embeddings=MAX_POSITIONS, eos_token_id=None
        )
        module = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for weight in module.parameters():
                weight.mul_(4.0)
            module.get_output_embeddings().weight.mul_(LOGIT_SCALE / 4.0)
        pair.append(module)
    verifier, drafter = pair
    with torch.no_grad():
        for mine, theirs in zip(drafter.parameters(), verifier.parameters(), strict=True):
            mine.mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
    return verifier, drafter


def save_model(folder: Path, module: PreTrainedModel, tokenizer: PreTrainedTokenizerFast | None) -> Path:
    """The folder, with the model in it, and its tokenizer unless None."""
    module.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def save_pair(folder: Path) -> tuple[Path, Path]:
    """Folders of the random verifier and drafter."""
    verifier, drafter = _random_pair()
    tokenizer = byte_tokenizer()
    return save_model(folder / "verifier", verifier, tokenizer), save_model(
        folder / "drafter", drafter, tokenizer
    )


@functools.cache
def _random_models() -> tuple[CausalModel, CausalModel]:
    verifier, drafter = _random_pair()
    return CausalModel(verifier, "verifier"), CausalModel(drafter, "drafter")


def random_backend(
    options: EngineOptions | None = None, *, recorder: Recorder = NULL_RECORDER
) -> LocalBackend:
    """A backend over the random pair, nothing cached."""
    tokenizer = byte_tokenizer()
    engine = Engine(*_random_models(), tokenizer, len(tokenizer), options=options, recorder=recorder)
    return LocalBackend(engine, ChatTemplate(tokenizer))


def _writer(tokens: Sequence[int], vocab_size: int, eos_token_id: int) -> PreTrainedModel:
    """A model whose next token depends on the current one alone: its hidden state is the one-hot token.

    Behind the last of `tokens` it writes EOS for ever.
    """
    config = _config(
        vocab_size, vocab_size, num_hidden_layers=1, max_position_embeddings=4096, eos_token_id=eos_token_id
    )
    module = Qwen2ForCausalLM(config)
    with torch.no_grad():
        module.get_input_embeddings().weight.copy_(torch.eye(vocab_size))
        layer = module.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        head = module.get_output_embeddings().weight.zero_()
        head[eos_token_id] = 0.5
        for token, following in itertools.pairwise(tokens):
            head[following, token] = 1.0
    return module


def writing_backend(
    pieces: Sequence[str | bytes],
    *,
    drafter_pieces: Sequence[str | bytes] | None = None,
    recorder: Recorder = NULL_RECORDER,
    options: EngineOptions | None = None,
) -> LocalBackend:
    """A backend that answers with the pieces, one token each, then EOS, whatever it is asked.

    A piece is a text, or one byte. No token may come twice. `drafter_pieces`: what the drafter would write.
    """
    written = (pieces, pieces if drafter_pieces is None else drafter_pieces)
    tokenizer = byte_tokenizer(list(dict.fromkeys(p for ps in written for p in ps if isinstance(p, str))))
    vocab_size = -(-len(tokenizer) // 8) * 8
    letters = {byte: i for i, byte in enumerate(_bytes_in_order())}
    both = []
    for name, wanted in zip(("verifier", "drafter"), written, strict=True):
        tokens = [letters[ord("\n")]]  # the last token of every prompt
        for piece in wanted:
            tokens.append(
                letters[piece[0]] if isinstance(piece, bytes) else tokenizer.convert_tokens_to_ids(piece)
            )
        assert len(set(tokens)) == len(tokens), "a token comes twice"
        both.append(CausalModel(_writer(tokens, vocab_size, tokenizer.eos_token_id), name))
    engine = Engine(*both, tokenizer, len(tokenizer), options=options, recorder=recorder)
    return LocalBackend(engine, ChatTemplate(tokenizer))


def _bytes_in_order() -> list[int]:
    """The byte of each token of the byte-level alphabet, by id."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letter_of = {byte: chr(byte) for byte in printable}
    letter_of |= {byte: chr(256 + number) for number, byte in enumerate(others)}
    return sorted(letter_of, key=lambda byte: letter_of[byte])
