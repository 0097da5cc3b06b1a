"""One checkpoint of every kind, and a compressor over each, for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymspec_agents.compress.llmlingua import LLMLingua2, nothing_protected
from tests.compress.checkpoints import KINDS, make_checkpoint


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(kind, folder / kind) for kind in KINDS}


@pytest.fixture(scope="session")
def runners(checkpoints: dict[str, Path]) -> dict[str, LLMLingua2]:
    """Runners that leave every word to the classifier."""
    return {
        kind: LLMLingua2.load(folder, device="cpu", protected=nothing_protected)
        for kind, folder in checkpoints.items()
    }
