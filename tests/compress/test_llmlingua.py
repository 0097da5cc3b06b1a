"""LLMLingua2 on small random checkpoints: what it promises for every text, and as part of a router."""

from __future__ import annotations

import gc
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.compress.llmlingua import LLMLingua2, Protection, nothing_protected
from asymspec_agents.compress.protected import PROTECTION, protected_spans
from asymspec_agents.errors import ConfigurationError, WeightsError
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import EstimateCounter, TokenCounter
from asymspec_agents.trace import MemoryRecorder
from tests.compress.checkpoints import KINDS, PROSE, make_checkpoint
from tests.property.test_compress import Characters, holds, texts

COUNTER = EstimateCounter()
MARKER = re.compile(r"\n\[… [\d,]+ characters? left out; sha256:[0-9a-f]+ …\]\Z")


@pytest.fixture(scope="module")
def guarded(checkpoints: dict[str, Path]) -> dict[str, LLMLingua2]:
    """Runners that protect what they protect by default."""
    return {kind: LLMLingua2.load(path) for kind, path in checkpoints.items()}


def has_protected(text: str, rendition: str) -> bool:
    """Whether the protected spans of `text` stand in the rendition, in their order."""
    place = 0
    for start, end in protected_spans(text):
        place = rendition.find(text[start:end], place) + end - start
        if place < end - start:
            return False
    return True


def is_within(short: str, text: str) -> bool:
    """Whether the characters of `short` that are not white space stand in `text` in this order."""
    remaining = iter(text)
    return all(character in remaining for character in "".join(short.split()))


@pytest.mark.parametrize("kind", KINDS)
@given(
    text=texts | st.integers(0, len(PROSE) - 800).map(lambda start: PROSE[start : start + 800]),
    target=st.integers(-1, 150),
    counter=st.sampled_from([COUNTER, Characters()]),
)
@settings(max_examples=40)
def test_every_text_becomes_pieces_of_itself_within_the_target(
    guarded: dict[str, LLMLingua2], kind: str, text: str, target: int, counter: TokenCounter
) -> None:
    made = guarded[kind].compress(text, query="", target_tokens=target, counter=counter)
    holds(text, made.text, target, counter)
    assert not made.degraded
    if made.compressor == "llmlingua2" and made.text != text:
        body = MARKER.sub("", made.text)
        assert is_within(body, text)
        assert has_protected(text, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    [
        "☃ 🚀 ☃️ 👩‍💻 🇩🇪 " * 200,
        "\x00" * 3_000,
        "\ud800 word \udfff " * 300,
        "[CLS] [SEP] [PAD] [MASK] [UNK] [NEW0] <s> </s> <pad> <unk> <|endoftext|> " * 60,
        "x" * 30_000,
        "中文文本很有用。" * 900,
        "a\u0301\u0323" * 2_000,
        "ﷺ" * 1_500,
        "▁ ▁▁ word▁" * 300,
        ". . . . " * 900,
        "3.14.15." * 500,
        " \n\t " * 2_000 + "end",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_odd_texts_are_taken(runners: dict[str, LLMLingua2], kind: str, text: str) -> None:
    made = runners[kind].compress(text, query="", target_tokens=90, counter=COUNTER)
    holds(text, made.text, 90, COUNTER)
    if made.compressor == "llmlingua2":
        assert is_within(MARKER.sub("", made.text), text)


def test_a_huge_text_is_chunked_whole(runners: dict[str, LLMLingua2]) -> None:
    chunker = runners["bert"]._chunker
    text = (PROSE + "\n") * 20  # 280 kB
    chunks = list(chunker.chunks(text))
    spelled = "".join(text[word.start : word.end] for chunk in chunks for word in chunk.words)
    assert spelled == "".join(text.split())
    assert max(len(chunk.ids) for chunk in chunks) <= 511


def test_words_are_no_objects_for_the_garbage_collector(runners: dict[str, LLMLingua2]) -> None:
    text = (PROSE + "\n") * 5
    gc.collect()
    before = len(gc.get_objects())
    chunks = list(runners["bert"]._chunker.chunks(text))
    gc.collect()
    assert sum(len(chunk.words) for chunk in chunks) > 10_000
    assert len(gc.get_objects()) - before < 1_000  # a full collection stops every thread


def test_lines_stay_lines(runners: dict[str, LLMLingua2]) -> None:
    text = "\n".join(f"Line {n}: the harbour office, number {n}, sold the old ledgers." for n in range(60))
    made = runners["bert"].compress(text, query="", target_tokens=COUNTER.count(text) // 2, counter=COUNTER)
    assert made.compressor == "llmlingua2"
    assert MARKER.sub("", made.text).count("\n") > 50


def test_words_kept_at_a_lower_rate_are_kept_at_a_higher(runners: dict[str, LLMLingua2]) -> None:
    kept = [set(runners["bert"].kept_words(PROSE, rate=r, counter=COUNTER)) for r in (0.1, 0.4, 0.8, 1)]
    assert kept[0] < kept[1] < kept[2] < kept[3]


def test_a_text_that_grows_keeps_its_chunks(runners: dict[str, LLMLingua2]) -> None:
    chunker = runners["xlm-roberta"]._chunker
    before = [chunk.ids.tolist() for chunk in chunker.chunks(PROSE[:9_000])]
    after = [chunk.ids.tolist() for chunk in chunker.chunks(PROSE)]
    assert len(before) > 2
    assert after[: len(before) - 1] == before[:-1]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_change_nothing(checkpoints: dict[str, Path], kind: str) -> None:
    made = {
        LLMLingua2.load(checkpoints[kind], batch_size=size, protected=nothing_protected)
        .compress(PROSE, query="", target_tokens=900, counter=COUNTER)
        .text
        for size in (1, 3, 64)
    }
    assert len(made) == 1


def test_the_configuration_names_the_content(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoints["bert"], tmp_path / "elsewhere"))
    here, there = LLMLingua2.load(checkpoints["bert"]), LLMLingua2.load(copy)
    assert here.configuration == there.configuration
    assert str(tmp_path) not in there.configuration
    other = LLMLingua2.load(make_checkpoint("bert", tmp_path / "other", seed=1))
    changed = LLMLingua2.load(copy, protected=nothing_protected)
    assert len({here.configuration, other.configuration, changed.configuration}) == 3


MENTIONS = (
    "Invoice INV-001234 of 2026-11-30 says 14.5 kg, not 15 kg: see /srv/data/a.csv, "
    "https://example.org/x?y=1 and mail to jo@example.org. It never raised ValueError; "
    "`run --now` was without effect.\n"
)


@pytest.mark.parametrize("kind", KINDS)
def test_protected_spans_come_through_byte_for_byte(
    guarded: dict[str, LLMLingua2], runners: dict[str, LLMLingua2], kind: str
) -> None:
    text = PROSE[:3_000] + MENTIONS + PROSE[3_000:6_000]
    spans = [text[start:end] for start, end in protected_spans(text)]
    assert {"INV-001234", "2026-11-30", "14.5 kg", "not", "/srv/data/a.csv", "ValueError"} <= set(spans)
    target = COUNTER.count(text) * 6 // 10
    made = guarded[kind].compress(text, query="", target_tokens=target, counter=COUNTER)
    assert made.compressor == "llmlingua2"
    assert has_protected(text, made.text)
    made = runners[kind].compress(text, query="", target_tokens=target, counter=COUNTER)
    assert made.compressor == "llmlingua2"
    assert not has_protected(text, made.text)


def test_where_protected_spans_do_not_fit_the_model_is_not_asked(checkpoints: dict[str, Path]) -> None:
    pytest.importorskip("bm25s")
    recorder = MemoryRecorder()
    runner = LLMLingua2.load(checkpoints["bert"], timeout_s=1e-6, recorder=recorder)
    text = MENTIONS * 200 + "The lighthouse keeper sold the lamp."
    made = runner.compress(text, query="Who sold the lamp?", target_tokens=200, counter=COUNTER)
    assert made.compressor == "extractive"
    assert "lighthouse keeper" in made.text
    (event,) = (event.model_dump() for event in recorder.events)
    assert event["event"] == "compress_fallback"
    assert event["protected_tokens"] > event["target_tokens"] == 200
    with pytest.raises(TimeoutError):
        runner.compress(PROSE, query="", target_tokens=COUNTER.count(PROSE) * 7 // 10, counter=COUNTER)


def test_patterns_are_protected_too(checkpoints: dict[str, Path]) -> None:
    runner = LLMLingua2.load(checkpoints["bert"], protected=Protection((r"harbour \w+",)))
    target = COUNTER.count(PROSE) * 7 // 10
    made = runner.compress(PROSE, query="", target_tokens=target, counter=COUNTER)
    assert made.compressor == "llmlingua2"
    assert made.text.count("harbour office") == PROSE.count("harbour office") > 0
    assert Protection().configuration == PROTECTION
    assert f"protected={PROTECTION}+" in runner.configuration


@pytest.mark.parametrize("patterns", ["abc", ["a"], ("(",), (3,)])
def test_bad_patterns_are_named(patterns: Any) -> None:
    with pytest.raises(ConfigurationError, match="patterns="):
        Protection(patterns)


def test_global_state_is_left_alone(checkpoints: dict[str, Path]) -> None:
    import torch

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    LLMLingua2.load(checkpoints["bert"]).compress(PROSE, query="", target_tokens=500, counter=COUNTER)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_it_serves_a_router(runners: dict[str, LLMLingua2]) -> None:
    routed = ContextRouter(compressor=runners["bert"]).route(
        [
            {"role": "user", "content": "What was sold?"},
            {"role": "assistant", "content": "I look."},
            {"role": "user", "content": "Observation:\n" + PROSE},
        ]
    )
    assert routed.report.changes[0].compressor == "llmlingua2"
    assert not routed.report.num_degraded


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"timeout_s": 0.0}, "timeout_s=0.0"),
        ({"timeout_s": float("nan")}, "timeout_s=nan"),
        ({"chunk_ends": "."}, "chunk_ends='.'"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"device": "nowhere"}, "device='nowhere'"),
    ],
)
def test_bad_options_are_named(checkpoints: dict[str, Path], options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(field)):
        LLMLingua2.load(checkpoints["bert"], **options)


def test_what_is_no_token_classifier_is_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoints["bert"], tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    with pytest.raises(WeightsError, match="BertForMaskedLM"):
        LLMLingua2.load(folder)
    labels = {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
    (folder / "config.json").write_text(json.dumps({**config, **labels}))
    with pytest.raises(WeightsError, match="3 labels"):
        LLMLingua2.load(folder)
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(WeightsError, match="lacks"):
        LLMLingua2.load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match="safetensors"):
        LLMLingua2.load(folder)


def test_what_is_no_checkpoint_is_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="nowhere"):
        LLMLingua2.load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsError, match="empty"):
        LLMLingua2.load(tmp_path / "empty")
    (tmp_path / "file").write_text("{}")
    with pytest.raises(WeightsError, match="file"):
        LLMLingua2.load(tmp_path / "file")
    folder = Path(shutil.copytree(checkpoints["bert"], tmp_path / "no-tokenizer"))
    for path in folder.glob("*token*"):
        path.unlink()
    with pytest.raises(WeightsError, match="tokenizer"):
        LLMLingua2.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(WeightsError, match="config"):
        LLMLingua2.load(folder)
