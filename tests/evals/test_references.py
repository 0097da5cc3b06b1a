"""How reference modules are loaded: from their files, without a trace in `sys.modules`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.evals.references import load_module, references_folder, stub


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "made_up" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise RuntimeError('never run')")
    (package / "__init__.py").write_text("raise RuntimeError('never run')")
    (package / "words.py").write_text("WORD = 'neighbour'")
    (package / "scorer.py").write_text(
        "from absent_package.deep import decorate\nfrom .words import WORD\n"
        "from made_up.inner.words import WORD as SAME\n"
        "@decorate\ndef score(): return WORD + SAME\n"
    )
    monkeypatch.setenv("ASYMSPEC_REFERENCES", str(tmp_path))
    return tmp_path


def test_a_module_runs_with_its_neighbours_and_stubs_and_leaves_nothing(folder: Path) -> None:
    before = set(sys.modules)
    deep = stub("absent_package.deep", decorate=lambda function: function)
    module = load_module("made_up/inner/scorer.py", **{"absent_package.deep": deep})
    assert module.score() == "neighbourneighbour"
    assert set(sys.modules) == before


def test_without_the_folder_a_test_is_skipped_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYMSPEC_REFERENCES", str(tmp_path / "absent"))
    with pytest.raises(pytest.skip.Exception, match="make references"):
        references_folder()
