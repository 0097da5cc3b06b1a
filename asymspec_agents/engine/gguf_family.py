"""What GGUF files leave out about the presets' model families: configuration and tokenizer as published.

A GGUF file names its pre-tokenizer by a keyword, drops the normaliser, marks more added tokens special than
the authors do and has room for one end token; read naively, the tokenizer differs from the model's own.
Source of the facts: the published `config.json`, `tokenizer.json` and `tokenizer_config.json` of each family.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import WeightsError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["GGUFFamily", "family_of", "repair_chat_template", "transformers_config", "write_tokenizer"]

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5  # token types of the GGUF specification

_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

_DOUBLED = r"{{\"name\": <function-name>, \"arguments\": <args-json-object>}}"


@dataclass(frozen=True, slots=True)
class GGUFFamily:
    """A model family that can be converted."""

    architecture: str
    model_class: str
    split: Literal["qwen2", "digits"]
    is_nfc: bool
    has_permuted_qk: bool  # llama.cpp interleaves the rotary halves of query and key for this architecture
    eos_tokens: tuple[str, ...]  # the first is the tokenizer's
    pad_token: str
    bos_token: str | None
    unk_token: str | None
    not_special: frozenset[str]  # control tokens in GGUF, ordinary added tokens as published


_FAMILIES: Mapping[str, GGUFFamily] = {  # by the file's `tokenizer.ggml.pre`
    "qwen2": GGUFFamily(
        architecture="qwen2",
        model_class="Qwen2ForCausalLM",
        split="qwen2",
        is_nfc=True,
        has_permuted_qk=False,
        eos_tokens=("<|im_end|>", "<|endoftext|>"),
        pad_token="<|endoftext|>",
        bos_token=None,
        unk_token=None,
        not_special=frozenset(
            f"<|{name}|>"
            for name in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")
        ),
    ),
    "smollm": GGUFFamily(
        architecture="llama",
        model_class="LlamaForCausalLM",
        split="digits",
        is_nfc=False,
        has_permuted_qk=True,
        eos_tokens=("<|im_end|>",),
        pad_token="<|im_end|>",
        bos_token="<|im_start|>",
        unk_token="<|endoftext|>",
        not_special=frozenset(),
    ),
}


def family_of(fields: Mapping[str, Any]) -> GGUFFamily:
    """The family of a file with these metadata; WeightsError names the known ones when it is none of them."""
    architecture, tokenizer = fields.get("general.architecture"), fields.get("tokenizer.ggml.pre")
    family = _FAMILIES.get(str(tokenizer))
    if family is None or family.architecture != architecture:
        known = ", ".join(f"{family.architecture!r} with {name!r}" for name, family in _FAMILIES.items())
        raise WeightsError(
            f"a {architecture!r} model with tokenizer {tokenizer!r} is not known; known: {known}"
        )
    return family


def transformers_config(
    fields: Mapping[str, Any], family: GGUFFamily, *, transformers_version: str
) -> dict[str, Any]:
    """The content of config.json, in the spelling that old and new transformers versions read.

    Without its version, transformers takes a local tokenizer for one an old release wrote badly, and warns.
    """
    token_ids = {token: index for index, token in enumerate(fields["tokenizer.ggml.tokens"])}
    eos_ids = [token_ids[token] for token in family.eos_tokens]

    def value(name: str) -> Any:
        return fields[f"{family.architecture}.{name}"]

    config: dict[str, Any] = {
        "architectures": [family.model_class],
        "model_type": family.architecture,
        "vocab_size": len(token_ids),
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": float(f"{value('attention.layer_norm_rms_epsilon'):.6g}"),  # the file has it in fp32
        "rope_theta": float(value("rope.freq_base")),
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "transformers_version": transformers_version,
        "eos_token_id": eos_ids if len(eos_ids) > 1 else eos_ids[0],
        "pad_token_id": token_ids[family.pad_token],
    }
    if family.bos_token is not None:
        config["bos_token_id"] = token_ids[family.bos_token]
    return config


def repair_chat_template(template: str) -> str:
    """`template` with the tool prompt's doubled braces made single (one of the files was exported so)."""
    return template.replace(_DOUBLED, _DOUBLED[1:-1])


def write_tokenizer(fields: Mapping[str, Any], family: GGUFFamily, folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja into `folder`."""
    tokenizer = _tokenizer(fields, family)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = [added.content for added in tokenizer.get_added_tokens_decoder().values() if added.special]
    settings = {
        # The generic class takes tokenizer.json as it stands; a family's own class would rebuild parts of it.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": family.bos_token,
        "eos_token": family.eos_tokens[0],
        "pad_token": family.pad_token,
        "unk_token": family.unk_token,
        "additional_special_tokens": special,
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields[f"{family.architecture}.context_length"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    template = repair_chat_template(fields["tokenizer.chat_template"])
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8", newline="\n")


def _tokenizer(fields: Mapping[str, Any], family: GGUFFamily) -> Tokenizer:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    typed = list(zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"], strict=True))
    # Unused ids only pad the weight matrix; as published, the tokenizer does not know them.
    vocab = {token: index for index, (token, kind) in enumerate(typed) if kind != _UNUSED}
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    if family.is_nfc:
        tokenizer.normalizer = normalizers.NFC()
    if family.split == "qwen2":
        split: Any = pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    else:
        split = pre_tokenizers.Digits(individual_digits=True)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in typed:
        if kind in (_CONTROL, _USER_DEFINED):
            special = kind == _CONTROL and token not in family.not_special
            added = AddedToken(token, special=special, normalized=False)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])
    return tokenizer
