"""Small token classifiers of random weights, made on the spot: of BERT's, XLM-R's and a byte-level kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForTokenClassification,
    BertTokenizer,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForTokenClassification,
    XLMRobertaConfig,
    XLMRobertaForTokenClassification,
    XLMRobertaTokenizer,
)

from benchmarks.passages import made_up, numbered

__all__ = ["KINDS", "PROSE", "make_checkpoint"]

KINDS = ("bert", "xlm-roberta", "byte-level")
PROSE = numbered(made_up(70, seed=7), 14_000)
"""Prose of several chunks, with numbers, marks and JSON records."""

_MULTILINGUAL = (
    "Übermäßig große Öfen: ça coûte 3,50 € (±2%). Это тест. "
    "中文文本很有用。 日本語のテスト。 한국어 시험입니다. "
)
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "num_labels": 2,
    "initializer_range": 0.6,  # so that probabilities spread
}


def make_checkpoint(kind: str, folder: Path, seed: int = 0) -> Path:
    """A checkpoint of a kind in `folder`, which is made."""
    tokenizer: Any
    model: Any
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "bert":
            tokenizer = BertTokenizer(vocab=_wordpiece_vocabulary(), do_lower_case=False)
            model = BertForTokenClassification(BertConfig(vocab_size=len(tokenizer), **_SIZES))
        elif kind == "xlm-roberta":
            tokenizer = XLMRobertaTokenizer(vocab=_unigram_vocabulary())
            sizes = {**_SIZES, "max_position_embeddings": 514, "pad_token_id": tokenizer.pad_token_id}
            model = XLMRobertaForTokenClassification(XLMRobertaConfig(vocab_size=len(tokenizer), **sizes))
        else:
            tokenizer = _byte_level_tokenizer()
            sizes = {**_SIZES, "max_position_embeddings": 514, "pad_token_id": tokenizer.pad_token_id}
            model = RobertaForTokenClassification(RobertaConfig(vocab_size=len(tokenizer), **sizes))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def _wordpiece_vocabulary() -> dict[str, int]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        [PROSE, _MULTILINGUAL * 3],
        trainers.WordPieceTrainer(vocab_size=420, special_tokens=special, show_progress=False),
    )
    return dict(tokenizer.get_vocab())


def _unigram_vocabulary() -> list[tuple[str, float]]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.train_from_iterator(
        [PROSE, _MULTILINGUAL * 3],
        trainers.UnigramTrainer(
            vocab_size=400,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
            unk_token="<unk>",
            show_progress=False,
        ),
    )
    pieces = [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
    return [*pieces, ("<mask>", 0.0)]


def _byte_level_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        [PROSE],
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
    )
