"""Independent implementations of the official scorers, for comparing: wheels laid out beside the environment.

`make references` puts them into `.venv/references`, without what they depend on; ASYMSPEC_REFERENCES may name
another folder. Where it is absent, tests that need it are skipped with the command that makes it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture import ROOT

__all__ = ["load_module", "references_folder", "stub", "stubs"]

COMMAND = "make references"


def references_folder() -> Path:
    """The folder with `inspect_evals` and the other packages; skips the calling test where there is none."""
    folder = Path(os.environ.get("ASYMSPEC_REFERENCES") or ROOT / ".venv" / "references")
    if not folder.is_dir():
        pytest.skip(f"the reference scorers are not installed; run: {COMMAND}")
    return folder


def load_module(path: str, **stubbed: types.ModuleType) -> types.ModuleType:
    """The reference module at `path` (such as `inspect_evals/gaia/scorer.py`), run from its file.

    No `__init__` of its packages is run, but it can import its neighbours. `stubbed` stand in for modules
    that it imports and that are not installed, by dotted name. All of them are gone from `sys.modules`
    afterwards. Skips where the folder is absent.
    """
    folder = references_folder()
    parts = Path(path).with_suffix("").parts
    packages: dict[str, types.ModuleType] = {}
    for depth in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(folder.joinpath(*parts[:depth]))]
        packages[package.__name__] = package
    name = ".".join(parts)
    spec = importlib.util.spec_from_file_location(name, folder / path)
    if spec is None or spec.loader is None:
        pytest.fail(f"no module {folder / path}")
    module = importlib.util.module_from_spec(spec)
    with stubs({**packages, **stubbed, name: module}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        spec.loader.exec_module(module)
    return module


def stub(name: str, **attributes: object) -> types.ModuleType:
    """A module with these attributes."""
    module = types.ModuleType(name)
    vars(module).update(attributes)
    return module


@contextmanager
def stubs(modules: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """Puts `modules` into `sys.modules`; afterwards they and what was imported of their packages are gone."""
    before = dict(sys.modules)
    roots = {name.partition(".")[0] for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
            if name in before:
                sys.modules[name] = before[name]
            else:
                del sys.modules[name]
