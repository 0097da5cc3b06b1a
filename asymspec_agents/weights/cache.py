"""The cache of converted presets: where a model lies, when it counts as whole, listing and removing.

A model is a folder with a manifest, written last, of every file and its size; the folder is made elsewhere
and renamed into place, so a half-written one is never taken for a model. Work in progress lies in `.partial`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .. import config
from ..errors import MissingDependencyError, WeightsError
from .presets import PRESETS, Preset

__all__ = ["CachedModel", "default_cache_dir", "list_models", "remove"]

CONVERTER_VERSION = 1
"""Raised whenever `engine.gguf` writes a different folder, so that older conversions are made again."""

_MANIFEST = "asymspec-model.json"


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A preset's state in the cache. `num_bytes`: what its folder, or its unfinished download, takes."""

    preset: Preset
    path: Path
    state: Literal["cached", "partial", "absent"]
    num_bytes: int


def default_cache_dir() -> Path:
    """ASYMSPEC_CACHE where set, else `asymspec/models` in the user's cache folder."""
    chosen = config.from_env().cache_dir
    if chosen is not None:
        return chosen
    try:
        import platformdirs
    except ImportError as error:
        raise MissingDependencyError("platformdirs", "engine") from error
    return platformdirs.user_cache_path("asymspec", appauthor=False) / "models"


def chosen_cache_dir(cache_dir: str | os.PathLike[str] | None) -> Path:
    return default_cache_dir() if cache_dir is None else Path(cache_dir).expanduser().absolute()


def list_models(cache_dir: str | os.PathLike[str] | None = None) -> tuple[CachedModel, ...]:
    """The state of every preset, in the order of PRESETS."""
    folder = chosen_cache_dir(cache_dir)
    return tuple(_cached_model(folder, preset) for preset in PRESETS.values())


def remove(name: str, cache_dir: str | os.PathLike[str] | None = None) -> int:
    """Deletes preset `name` from the cache, an unfinished download included; returns the bytes freed.

    Raises WeightsError for a name that is no preset: hub models and local folders are not this cache's.
    """
    if name not in PRESETS:
        raise WeightsError(f"{name!r} is not a preset, and only presets are kept here: {', '.join(PRESETS)}")
    folder = chosen_cache_dir(cache_dir)
    if not folder.is_dir():
        return 0
    num_bytes = 0
    try:
        with lock(folder, PRESETS[name]):
            for path in (model_path(folder, PRESETS[name]), work_path(folder, PRESETS[name])):
                num_bytes += _size(path)
                delete_folder(path)
    except OSError as error:
        raise WeightsError(f"{name} could not be removed from {folder}: {error}") from error
    return num_bytes


def model_path(cache_dir: Path, preset: Preset) -> Path:
    return cache_dir / preset.name


def work_path(cache_dir: Path, preset: Preset) -> Path:
    return cache_dir / ".partial" / preset.name


def is_whole(folder: Path, preset: Preset) -> bool:
    """Whether `folder` holds the finished conversion of `preset`, by its manifest and the sizes in it."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        found = (manifest["preset"], manifest["sha256"], manifest["converter"])
        return found == (preset.name, preset.sha256, CONVERTER_VERSION) and all(
            (folder / name).stat().st_size == size for name, size in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False  # no manifest, or not one that this package wrote


def write_manifest(folder: Path, preset: Preset, *, transformers_version: str) -> None:
    manifest = {
        "preset": preset.name,
        "source_model": preset.source_model,
        "licence": preset.licence,
        "sha256": preset.sha256,
        "converter": CONVERTER_VERSION,
        "transformers": transformers_version,
        "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir())},
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def lock(cache_dir: Path, preset: Preset, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the preset's lock, which a process that dies lets go. `on_wait` is called if another has it."""
    try:
        import filelock
    except ImportError as error:
        raise MissingDependencyError("filelock", "engine") from error
    folder = cache_dir / ".partial"
    folder.mkdir(parents=True, exist_ok=True)
    file_lock = filelock.FileLock(folder / f"{preset.name}.lock")
    try:
        file_lock.acquire(timeout=0)
    except filelock.Timeout:
        on_wait()
        file_lock.acquire()
    try:
        yield
    finally:
        file_lock.release()


def delete_folder(path: Path) -> None:
    """Deletes `path` and what is in it; nothing happens where there is no such folder."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _cached_model(cache_dir: Path, preset: Preset) -> CachedModel:
    path = model_path(cache_dir, preset)
    if is_whole(path, preset):
        return CachedModel(preset, path, "cached", _size(path))
    leftover = _size(path) + _size(work_path(cache_dir, preset))
    return CachedModel(preset, path, "partial" if leftover else "absent", leftover)


def _size(folder: Path) -> int:
    num_bytes = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process may be at work in it
            num_bytes += path.stat().st_size if path.is_file() else 0
    return num_bytes
