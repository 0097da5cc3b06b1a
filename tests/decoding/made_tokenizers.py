"""Small tokenizers of several families, trained on a few lines: each cuts text in a way of its own."""

from __future__ import annotations

import functools

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from asymspec_agents.decoding.coverage import SAMPLE
from asymspec_agents.decoding.spelling import Speller, Vocabulary
from asymspec_agents.decoding.transcript import Transcriber
from asymspec_agents.decoding.vocab import VocabMap

__all__ = ["FAMILIES", "made", "speller", "transcriber", "vocabulary"]

CORPUS = [SAMPLE, "the then there these, 2024 2025 12 120; unbelievable believable cedar proceed.\n\n" * 3]
QWEN_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TURNS = (
    "{% for m in messages %}<START>{{ m.role }}\n{{ m.content }}<END>\n{% endfor %}"
    "{% if add_generation_prompt %}<START>assistant\n{% endif %}"
)
FAMILIES = ("words", "digits", "pieces")


@functools.cache
def made(family: str) -> PreTrainedTokenizerFast:
    """`words`: long pre-tokens, three digits at once, NFC. `digits`: GPT-2's cut, each digit alone.
    `pieces`: SentencePiece's alphabet with bytes as fallback and a space before every text."""
    start, end, text_end = {
        "words": ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
        "digits": ("[INST]", "[/S]", "<|endoftext|>"),
        "pieces": ("<start_of_turn>", "<end_of_turn>", "</s>"),
    }[family]
    special = [start, end, text_end]
    if family == "pieces":
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        named = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(
            vocab_size=700, special_tokens=["<unk>", *named], show_progress=False, limit_alphabet=90
        )
        ascii_only = ["".join(letter for letter in text if letter.isascii()) for text in CORPUS]
        tokenizer.train_from_iterator(ascii_only, trainer)
        tokenizer = _without_added(tokenizer)
        tokenizer.pre_tokenizer = None  # type: ignore[assignment]
    else:
        tokenizer = Tokenizer(models.BPE())
        cut = pre_tokenizers.Split(Regex(QWEN_CUT), "isolated")
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=family == "digits")
        first = cut if family == "words" else pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, last])
        tokenizer.decoder = decoders.ByteLevel()
        if family == "words":
            tokenizer.normalizer = normalizers.NFC()
        trainer = trainers.BpeTrainer(
            vocab_size=620 if family == "words" else 430,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)] if family == "words" else [])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        chat_template=TURNS.replace("<START>", start).replace("<END>", end),
    )


def _without_added(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the trainer's special tokens as ordinary ones of its model."""
    import json

    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(state))


@functools.cache
def vocabulary(family: str) -> Vocabulary:
    """What its tokens spell; each has a second id that ends an answer."""
    tokenizer = made(family)
    text_end = "</s>" if family == "pieces" else "<|endoftext|>"
    ends = [tokenizer.convert_tokens_to_ids(text_end), tokenizer.eos_token_id]
    return Vocabulary.of(tokenizer, name=family, eos_token_ids=ends)


@functools.cache
def speller(family: str) -> Speller:
    return Speller(made(family), vocabulary(family))


@functools.cache
def transcriber(verifier: str, drafter: str) -> Transcriber:
    """What one family writes, in the tokens of another."""
    vocab_map = VocabMap.build(vocabulary(verifier), vocabulary(drafter))
    return Transcriber(vocab_map, vocabulary(verifier), speller(drafter))
