"""Maps in files: what is written is read, and anything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.decoding.vocab_file import load_map, save_map
from asymspec_agents.errors import ConfigurationError

from .made_tokenizers import vocabulary

KINDS = ("json", "safetensors")


@pytest.fixture
def vocab_map() -> VocabMap:
    return VocabMap.build(vocabulary("words"), vocabulary("digits"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_is_read_as_it_was_written(kind: str, vocab_map: VocabMap, tmp_path: Path) -> None:
    path = tmp_path / f"map.{kind}"
    save_map(vocab_map, path)
    assert load_map(path) == vocab_map
    save_map(vocab_map, path)
    assert load_map(str(path)) == vocab_map


def test_both_kinds_hold_the_same(vocab_map: VocabMap, tmp_path: Path) -> None:
    for kind in KINDS:
        save_map(vocab_map, tmp_path / f"map.{kind}")
    assert load_map(tmp_path / "map.json") == load_map(tmp_path / "map.safetensors")


@pytest.mark.parametrize("name", ["map.pkl", "map.pt", "map"])
def test_other_kinds_of_files_are_refused(name: str, vocab_map: VocabMap, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"a \.json or a \.safetensors file"):
        save_map(vocab_map, tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"a \.json or a \.safetensors file"):
        load_map(tmp_path / name)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_damaged_files(kind: str, vocab_map: VocabMap, tmp_path: Path) -> None:
    path = tmp_path / f"map.{kind}"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_map(path)
    save_map(vocab_map, path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], whole[: len(whole) // 2], b"\xff" + whole):
        path.write_bytes(damaged)
        with pytest.raises(ConfigurationError, match=r"damaged|no vocabulary map"):
            load_map(path)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"format": "other"}, "is no vocabulary map"),
        ({"version": 2}, "version 2; this release reads 1"),
        ({"verifier_ids": "text"}, "verifier_ids must be a list of token ids"),
        ({"drafter_ids": [True]}, "drafter_ids must be a list of token ids"),
        ({"drafter_ids": [1.5]}, "drafter_ids must be a list of token ids"),
        ({"verifier_size": -1}, "verifier_size must be a number of ids"),
        ({"verifier_fingerprint": None}, "verifier_fingerprint must be a text"),
        ({"verifier_ids": []}, "the numbers must be the same"),
    ],
)
def test_a_file_that_says_something_else(
    changes: dict[str, Any], error: str, vocab_map: VocabMap, tmp_path: Path
) -> None:
    path = tmp_path / "map.json"
    save_map(vocab_map, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ConfigurationError, match=error):
        load_map(path)


def test_a_list_is_no_map(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text("[1]")
    with pytest.raises(ConfigurationError, match="no vocabulary map"):
        load_map(path)


def test_a_file_of_any_size_is_not_read(
    vocab_map: VocabMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "map.json"
    save_map(vocab_map, path)
    monkeypatch.setattr("asymspec_agents.decoding.vocab_file.MAX_BYTES", path.stat().st_size)
    assert load_map(path) == vocab_map
    monkeypatch.setattr("asymspec_agents.decoding.vocab_file.MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(ConfigurationError, match="is larger than"):
        load_map(path)
