"""LLMLingua2, LLMLinguaPackage and the llmlingua package as it comes keep the same words.

Where llmlingua 0.2.2 itself breaks there is nothing to compare, and the test says which input it is: see
BROKEN. Its own start needs two stand-ins for what no test may fetch or break: OpenAI's tokenizer, and the
special tokens of XLM-R.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asymspec_agents.compress.llmlingua import LLMLingua2, LLMLinguaPackage, nothing_protected
from asymspec_agents.compress.llmlingua.threshold import percentile_of_rate
from asymspec_agents.compress.protected import protected_spans
from asymspec_agents.errors import MissingDependencyError
from asymspec_agents.tokens import EstimateCounter, clean_text
from tests.architecture import ROOT
from tests.compress.checkpoints import PROSE, make_checkpoint
from tests.property.test_compress import holds

llmlingua = pytest.importorskip("llmlingua")

RATES = (0.05, 0.15, 0.3, 0.5, 0.77, 0.95)
COUNTER = EstimateCounter()
NAMES = {"bert": "bert-base-multilingual-cased", "xlm-roberta": "xlm-roberta-large"}

# What the package fails on, or reads as something else than text.
BROKEN = {
    "nothing": "",
    "no known word": "☃ 🚀 " * 400,
    "a special token of OpenAI's": "The end. <|endoftext|> " * 200,
    "special tokens of BERT's": "[CLS] said [SEP] and [PAD] " * 200,
    "special tokens of XLM-R's": "<s> said </s> and <pad> " * 200,
    "a placeholder of its own": "The number [NEW0] was [NEW1]. " * 200,
    "a lone surrogate": "half \ud83d a sign. " * 200,
    "its own word separator": "a\t\t|\t\tb 1 " * 300,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("llmlingua")
    return {kind: make_checkpoint(kind, base / "of-any-name" / kind) for kind in NAMES}


@pytest.fixture(scope="module")
def pairs(folders: dict[str, Path]) -> dict[str, tuple[LLMLingua2, LLMLinguaPackage]]:
    return {
        kind: (
            LLMLingua2.load(folder, device="cpu", protected=nothing_protected),
            LLMLinguaPackage.load(folder, protected=nothing_protected),
        )
        for kind, folder in folders.items()
    }


def real_texts() -> dict[str, str]:
    return {
        "passages": PROSE,
        "a manual": (ROOT / "ARCHITECTURE.md").read_text("utf-8").replace("─", "-"),
        "a licence": (ROOT / "LICENSE").read_text("utf-8"),
        "one line": "The museum in Bergen sold 3.14 letters, although nobody asked for it.",
        "languages": "Übermäßig große Öfen: ça coûte 3,50 €. Это тест. 中文文本很有用。 한국어 시험입니다. "
        * 40,
    }


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("name", real_texts())
def test_both_keep_the_same_words(
    pairs: dict[str, tuple[LLMLingua2, LLMLinguaPackage]], kind: str, name: str
) -> None:
    runner, package = pairs[kind]
    text = real_texts()[name]
    for rate in RATES:
        kept = _known(runner, text, rate)
        theirs = _known(runner, text, rate, package.kept_words(text, rate=rate, counter=COUNTER))
        differ = ({*kept} ^ {*theirs}) - _at_the_threshold(runner, text, rate)
        assert [word for word in differ if not _is_cut_there(runner, text, word)] == []
        assert kept or rate < 0.3 or name == "one line"


def _known(runner: LLMLingua2, text: str, rate: float, spans: Any = None) -> list[tuple[int, int]]:
    """The places kept at a rate, those aside that the tokenizer has no piece for: the package drops them."""
    words = [word for chunk in runner._chunker.chunks(text) for word in chunk.words]
    known = {(word.start, word.end) for word in words if word.is_known and word.start < word.end}
    spans = runner.kept_words(text, rate=rate, counter=COUNTER) if spans is None else spans
    return [(span.start, span.end) for span in spans if (span.start, span.end) in known]


class _Weights:
    """In place of OpenAI's tokenizer: as many tokens as our counter has."""

    def encode(self, text: str) -> range:
        return range(COUNTER.count(text.lstrip("▁")))


def _is_cut_there(runner: LLMLingua2, text: str, word: tuple[int, int]) -> bool:
    """Whether the package cuts off the end of the word's chunk, where ours makes two chunks of it.

    It does where a chunk by itself has more tokens than in its text.
    """
    whole = {(chunk.start, chunk.end) for chunk in runner._chunker.chunks(text)}
    spans = [*runner._chunker._spans(text)]
    cut = [span for span in spans if (span.start, span.end) not in whole]
    assert len(cut) <= 0.1 * len(spans) + 1
    return any(span.start <= word[0] < span.end for span in cut)


def _at_the_threshold(runner: LLMLingua2, text: str, rate: float) -> set[tuple[int, int]]:
    """The places of words so near their chunk's threshold that the last bits of a probability decide.

    The package pads all chunks to one length, which changes these bits.
    """
    percentile = percentile_of_rate(rate)
    assert percentile is not None
    found: set[tuple[int, int]] = set()
    num_words = 0
    for judged in runner._judged(text, COUNTER):
        threshold = np.percentile(np.repeat(judged.probabilities, judged.weights), percentile)
        is_near = np.abs(judged.probabilities - threshold) < 1e-6
        found |= {(word.start, word.end) for word, near in zip(judged.words, is_near, strict=True) if near}
        num_words += len(is_near)
    assert len(found) <= max(3, 0.02 * num_words)
    return found


@pytest.mark.parametrize("kind", NAMES)
def test_the_package_as_it_comes_labels_the_same_words(
    folders: dict[str, Path], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmlingua import prompt_compressor

    monkeypatch.setattr(prompt_compressor.tiktoken, "encoding_for_model", lambda name: _Weights())
    monkeypatch.setattr(prompt_compressor, "seed_everything", lambda seed: None)
    dataset = functools.partial(prompt_compressor.TokenClfDataset, model_name=NAMES[kind])
    monkeypatch.setattr(prompt_compressor, "TokenClfDataset", dataset)
    (tmp_path / NAMES[kind]).symlink_to(folders[kind])
    original = prompt_compressor.PromptCompressor(
        str(tmp_path / NAMES[kind]),
        device_map="cpu",
        model_config={"trust_remote_code": False},
        use_llmlingua2=True,
    )
    runner = LLMLingua2.load(folders[kind], device="cpu")
    words = [word for chunk in runner._chunker.chunks(PROSE) for word in chunk.words]
    for rate in RATES:
        answer = original.compress_prompt(
            [PROSE], rate=rate, return_word_label=True, word_sep="\ufdd0", label_sep="\ufdd1"
        )
        labels = [line.split("\ufdd1") for line in answer["fn_labeled_original_prompt"].split("\ufdd0")]
        assert [word for word, _ in labels] == [word.written for word in words]
        kept = set(runner.kept_words(PROSE, rate=rate, counter=COUNTER))
        ours = [any((s.start, s.end) == (w.start, w.end) for s in kept) for w in words]
        theirs = [label == "1" for _, label in labels]
        ties = _at_the_threshold(runner, PROSE, rate)
        differing = zip(words, theirs, ours, strict=True)
        assert {(word.start, word.end) for word, label, own in differing if label != own} <= ties


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_package_breaks_neither(
    pairs: dict[str, tuple[LLMLingua2, LLMLinguaPackage]], kind: str, name: str
) -> None:
    for compressor in pairs[kind]:
        made = compressor.compress(BROKEN[name], query="", target_tokens=90, counter=COUNTER)
        holds(BROKEN[name], made.text, 90, COUNTER)


@pytest.mark.parametrize("kind", NAMES)
def test_both_keep_what_is_protected(folders: dict[str, Path], kind: str) -> None:
    text = PROSE[:3_000]
    spans = [text[start:end] for start, end in protected_spans(text)]
    assert len(spans) > 10
    target = COUNTER.count(text) * 7 // 10
    for compressor in (LLMLingua2.load(folders[kind]), LLMLinguaPackage.load(folders[kind])):
        made = compressor.compress(text, query="", target_tokens=target, counter=COUNTER)
        assert made.compressor in compressor.configuration.split("/")[0]
        place = 0
        for span in spans:
            place = made.text.index(span, place) + len(span)


def test_a_missing_package_is_named_at_load(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "asymspec_agents.compress.llmlingua.package_shim", raising=False)
    monkeypatch.setitem(sys.modules, "llmlingua", None)
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[llmlingua\]"):
        LLMLinguaPackage.load(folders["bert"])


@pytest.mark.parametrize("kind", NAMES)
def test_the_packages_renditions_are_pieces_of_the_original(
    pairs: dict[str, tuple[LLMLingua2, LLMLinguaPackage]], kind: str
) -> None:
    text = PROSE[:6_000]
    target = COUNTER.count(text) // 2
    made = pairs[kind][1].compress(text, query="", target_tokens=target, counter=COUNTER)
    assert made.compressor == "llmlingua"
    assert target * 0.9 <= COUNTER.count(made.text) <= target
    body = made.text[: made.text.rindex("\n[…")]
    remaining = iter(clean_text(text))
    assert all(character in remaining for character in "".join(body.split()))
    assert body.count("\n") > 3


def test_the_package_leaves_global_state_alone(folders: dict[str, Path]) -> None:
    before = random.getstate(), torch.random.get_rng_state(), dict(os.environ)
    deterministic = torch.backends.cudnn.deterministic
    package = LLMLinguaPackage.load(folders["bert"])
    package.compress(PROSE[:3_000], query="", target_tokens=200, counter=COUNTER)
    assert random.getstate() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert dict(os.environ) == before[2]
    assert torch.backends.cudnn.deterministic == deterministic


def test_the_packages_time_is_limited(folders: dict[str, Path]) -> None:
    package = LLMLinguaPackage.load(folders["bert"], timeout_s=1e-6, protected=nothing_protected)
    with pytest.raises(TimeoutError, match="0 of"):
        package.compress(PROSE, query="", target_tokens=200, counter=COUNTER)
