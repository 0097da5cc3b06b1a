"""Independent implementations of the official scorers, for comparing: wheels laid out beside the environment.

`make references` puts them into `.venv/references`, without what they depend on; ASYMSPEC_REFERENCES may name
another folder. Where it is absent, tests that need it are skipped with the command that makes it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture import ROOT

__all__ = ["load_module", "references_folder", "stubs"]

COMMAND = "make references"


def references_folder() -> Path:
    """The folder with `inspect_evals` and the other packages; skips the calling test where there is none."""
    folder = Path(os.environ.get("ASYMSPEC_REFERENCES") or ROOT / ".venv" / "references")
    if not folder.is_dir():
        pytest.skip(f"the reference scorers are not installed; run: {COMMAND}")
    return folder


def load_module(path: str, **stubbed: types.ModuleType) -> types.ModuleType:
    """The reference module at `path` (such as `inspect_evals/gaia/scorer.py`), run from its file.

    Its package's __init__ is not run. `stubbed` stand in for modules that it imports and that are not
    installed, by dotted name; they are gone from `sys.modules` afterwards. Skips where the folder is absent.
    """
    file = references_folder() / path
    spec = importlib.util.spec_from_file_location("reference_" + file.stem, file)
    assert spec is not None and spec.loader is not None, f"no module {file}"
    module = importlib.util.module_from_spec(spec)
    with stubs(stubbed):
        sys.modules[spec.name] = module  # dataclasses look their module up
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[spec.name]
    return module


@contextmanager
def stubs(modules: dict[str, types.ModuleType]) -> Iterator[None]:
    """Puts `modules` into `sys.modules` by dotted name, and takes them out again."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
