"""Token counters: the estimate against facts known of tokenizers, the exact counter, the cache."""

from __future__ import annotations

import threading

import pytest

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.tokens import (
    CachedCounter,
    EstimateCounter,
    SampledCounter,
    TokenizerCounter,
    clean_text,
)

ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "\ud800",
    "a\udc00b",
    "<|endoftext|>",
    "e\u0301",
    "👩‍💻",
    "\r\n\r\n",
    "\U0010ffff",
]


def fast_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"<unk>": 0, "a": 1, "b": 2, "<|end|>": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


@pytest.mark.parametrize("text", ["", "plain", "é", "中文", "😀", "\ufffd", "\x00"])
def test_clean_text_keeps_text_without_surrogates(text: str) -> None:
    assert clean_text(text) is text


def test_clean_text_replaces_each_surrogate() -> None:
    assert clean_text("a\ud800\udc00b\udfff") == "a\ufffd\ufffdb\ufffd"


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_estimate_takes_any_string(text: str) -> None:
    num_tokens = EstimateCounter().count(text)
    assert num_tokens == EstimateCounter().count(clean_text(text))
    assert num_tokens == 0 if not text else num_tokens >= 1


# Counts by Qwen2.5's tokenizer, which the estimate was fitted to (on other texts).
@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [
        ("The quick brown fox jumps over the lazy dog near the old river bank on a sunny day. " * 5, 96),
        ("2026-11-29 12:34:56 5.25 1000000 42 " * 5, 180),
        ('{"id": 17, "name": "Ada", "tags": ["a", "b"], "ok": true}\n' * 5, 135),
        ("def add(first, second):\n    return first + second\n\n" * 5, 60),
        ("中文文本通常没有空格，因此不能按四个字符一个词元来估计。" * 5, 90),
    ],
)
def test_estimate_is_near_a_real_tokenizer(text: str, num_tokens: int) -> None:
    assert EstimateCounter().count(text) == pytest.approx(num_tokens, rel=0.2)


def test_estimate_never_shrinks_as_text_grows() -> None:
    text = "One word, two  words; 300 中文 😀 snake_case CamelCase\n\n\t0xff ÄÖ" * 3
    counts = [EstimateCounter().count(text[:end]) for end in range(len(text) + 1)]
    assert counts == sorted(counts)


def test_tokenizer_counter_counts_exactly_and_special_text_as_its_token() -> None:
    counter = TokenizerCounter(fast_tokenizer())
    assert counter.count("a b a") == 3
    assert counter.count("a <|end|> b") == 3
    assert counter.count("\ud800") == 1
    assert counter.count("") == 0


def test_tokenizer_counter_ignores_and_keeps_the_callers_truncation() -> None:
    tokenizer = fast_tokenizer()
    tokenizer.enable_truncation(2)
    assert TokenizerCounter(tokenizer).count("a b a b") == 4
    assert len(tokenizer.encode("a b a b").ids) == 2


def test_tokenizer_counter_name_tells_vocabularies_apart() -> None:
    other = fast_tokenizer()
    other.add_tokens(["c"])
    truncating = fast_tokenizer()
    truncating.enable_truncation(2)
    assert TokenizerCounter(fast_tokenizer()).name == TokenizerCounter(truncating).name
    assert TokenizerCounter(fast_tokenizer()).name != TokenizerCounter(other).name


def test_tokenizer_counter_takes_a_transformers_tokenizer() -> None:
    transformers = pytest.importorskip("transformers")
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=fast_tokenizer(), unk_token="<unk>")
    assert TokenizerCounter(wrapped).count("a b a") == 3


def test_tokenizer_counter_takes_any_object_with_encode() -> None:
    class Slow:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            assert not add_special_tokens
            return list(text.encode())

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

    assert TokenizerCounter(Slow()).count("é") == 2
    with pytest.raises(ConfigurationError, match="encode"):
        TokenizerCounter(object())


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.num_calls = 0

    def count(self, text: str) -> int:
        self.num_calls += 1
        return len(text)


def test_cached_counter_counts_each_text_once_and_forgets_the_oldest() -> None:
    inner = Counting()
    counter = CachedCounter(inner, max_entries=2)
    assert [counter.count(text) for text in ("a", "bb", "a", "ccc", "a")] == [1, 2, 1, 3, 1]
    assert inner.num_calls == 3
    assert counter.count("bb") == 2
    assert inner.num_calls == 4
    assert counter.name == "counting"


def test_cached_counter_tells_surrogates_apart() -> None:
    counter = CachedCounter(Counting())
    assert (counter.count("\ud800\ud800"), counter.count("\ufffd"), counter.count("\udc00")) == (2, 1, 1)


def test_cached_counter_refuses_no_entries() -> None:
    with pytest.raises(ConfigurationError, match="max_entries=0"):
        CachedCounter(Counting(), max_entries=0)


def test_cached_counter_is_thread_safe() -> None:
    counter = CachedCounter(EstimateCounter(), max_entries=8)
    wrong: list[str] = []

    def work() -> None:
        for number in range(400):
            text = "word " * (number % 16)
            if counter.count(text) != EstimateCounter().count(text):
                wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Characters:
    """A token for each character but spaces; remembers how long the texts were."""

    name = "characters"

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def count(self, text: str) -> int:
        self.lengths.append(len(text))
        return len(text) - text.count(" ")


def test_a_tokenizer_takes_long_texts_in_pieces_cut_where_it_splits_itself() -> None:
    lengths = []

    class Words:
        def encode(self, text: str, add_special_tokens: bool) -> list[str]:
            lengths.append(len(text))
            return text.split()

    counter = TokenizerCounter(Words())
    for text in ("word " * 60_000, "a longer line of it\n" * 20_000, "x" * 200_000 + " y"):
        lengths.clear()
        expected = len(text.split()) if " y" not in text else 8  # 6 pieces of the word add one each
        assert counter.count(text) == expected
        assert sum(lengths) == len(text)
        assert max(lengths) <= 40_000
        assert len(lengths) <= len(text) / 30_000 + 1


def test_a_fast_tokenizers_count_does_not_depend_on_the_pieces() -> None:
    counter = TokenizerCounter(fast_tokenizer())
    line = "a b <|end|> c\n"
    assert counter.count(line * 20_000) == 20_000 * counter.count(line)


def test_sampled_counts_are_exact_up_to_their_range_and_near_it_beyond() -> None:
    inner = Characters()
    counter = SampledCounter(inner, exact_tokens=20_000)
    for text in ("ab " * 20_000, "x" * 20_000 + " " * 400_000, "", " " * 10**6):
        assert counter.count(text) == inner.count(text)
    for text in ("ab " * 300_000, "".join(f"{n} is {n % 7} of it. " for n in range(50_000))):
        inner.lengths.clear()
        estimate = counter.count(text)
        assert sum(inner.lengths) <= 40_000
        assert estimate == pytest.approx(inner.count(text), rel=0.02)


def test_no_text_is_said_to_be_in_the_exact_range_without_a_count() -> None:
    text = "x" * 512 + " " * 999_488  # the first sample is all there is
    counter = SampledCounter(Characters(), exact_tokens=1_000)
    assert counter.count(text) > 1_000
    assert SampledCounter(Characters(), exact_tokens=20_000).count(text) == 512
    with pytest.raises(ConfigurationError, match="exact_tokens=0"):
        SampledCounter(Characters(), exact_tokens=0)


def test_a_sampled_counter_has_a_name_of_its_own() -> None:
    names = {SampledCounter(Characters(), exact_tokens=tokens).name for tokens in (1, 2)}
    assert len(names | {"characters"}) == 3
