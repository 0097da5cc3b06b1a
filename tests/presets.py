"""The real models of the full tier, as `make test` fetches them beforehand: tests open no connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymspec_agents import weights


def preset_folder(name: str) -> Path:
    """The folder of a cached preset; skips the test where it is not cached."""
    states = {model.preset.name: model.state for model in weights.list_models()}
    if states[name] != "cached":
        pytest.skip(f"{name} is not cached; run: asymspec models pull {name}")
    return weights.resolve(name, offline=True).path
