"""From a name to a transformers folder: a local folder, a preset, or a model of the hub, in that order."""

from __future__ import annotations

import difflib
import errno
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import MissingDependencyError, WeightsError
from .cache import (
    chosen_cache_dir,
    delete_folder,
    is_whole,
    lock,
    model_path,
    work_path,
    write_manifest,
)
from .download import fetch_gguf
from .presets import PRESETS, Preset
from .progress import Progress, ProgressCallback

__all__ = ["ModelFolder", "resolve"]

_HUB_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")
_HUB_FILES = [
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "chat_template*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
]
_NOT_HUB_FILES = ["*/*", "consolidated*", "*.py"]  # other formats of the same weights, and code
_TOKENIZER_FILES = ("tokenizer*", "vocab.*", "*.model", "*.tiktoken")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder with a model's configuration, safetensors and tokenizer, and how its name was understood."""

    path: Path
    name: str
    source: Literal["local", "hub", "preset"]


def resolve(
    name: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    offline: bool = False,
) -> ModelFolder:
    """The transformers folder of `name`, fetched and converted first where need be.

    `cache_dir` is where presets are kept (`default_cache_dir()`); models of the hub stay in the hub library's
    own cache, under its own progress display. `offline` uses only what is on this machine.

    Raises WeightsError (ChecksumError for wrong bytes) saying what is missing and which ways are left, and
    MissingDependencyError before anything is downloaded.
    """
    text = os.fspath(name)
    folder = _existing(text)
    if text in PRESETS and (folder is None or not (folder / "config.json").is_file()):
        path = _resolve_preset(PRESETS[text], chosen_cache_dir(cache_dir), progress, offline=offline)
        return ModelFolder(path, text, "preset")
    if folder is not None:
        _check_folder(folder, f"{text!r}")
        return ModelFolder(folder.resolve(), text, "local")
    if _HUB_NAME.fullmatch(text):
        return ModelFolder(_resolve_hub(text, offline=offline), text, "hub")
    raise WeightsError(_unknown_name(text))


def _existing(text: str) -> Path | None:
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null character, an unknown user's home
        return None


def _resolve_preset(
    preset: Preset, cache_dir: Path, progress: ProgressCallback | None, *, offline: bool
) -> Path:
    path = model_path(cache_dir, preset)
    if is_whole(path, preset):
        return path
    if offline:
        raise WeightsError(f"{preset.name} is not in {cache_dir}, and nothing may be fetched offline")
    _check_packages()
    report = progress or (lambda event: None)
    try:
        with lock(cache_dir, preset, lambda: report(Progress(preset.name, "waiting", 0, 0))):
            if not is_whole(path, preset):  # the process waited for may have made it
                _make_preset(preset, cache_dir, report)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise WeightsError(f"{preset.name} could not be stored in {cache_dir}: {reason}") from error
    return path


def _check_packages() -> None:
    """Raises MissingDependencyError for what only the conversion, after a long download, would miss."""
    for package in ("torch", "transformers", "gguf", "filelock"):
        try:
            is_there = importlib.util.find_spec(package) is not None
        except ImportError:
            is_there = False
        if not is_there:
            raise MissingDependencyError(package, "engine")


def _make_preset(preset: Preset, cache_dir: Path, progress: ProgressCallback) -> None:
    path, work = model_path(cache_dir, preset), work_path(cache_dir, preset)
    _check_disk_space(preset, cache_dir, work)
    gguf = fetch_gguf(preset, work, progress)
    converted = work / "converted"
    delete_folder(converted)

    import transformers

    from ..engine.gguf import convert_gguf

    convert_gguf(
        gguf,
        converted,
        report=lambda done, total: progress(Progress(preset.name, "converting", done, total)),
    )
    write_manifest(converted, preset, transformers_version=transformers.__version__)
    delete_folder(path)
    converted.replace(path)
    delete_folder(work)


def _check_disk_space(preset: Preset, cache_dir: Path, work: Path) -> None:
    # While assembling, the file exists twice; while converting, once beside the result.
    have = sum(path.stat().st_size for path in work.glob("*") if path.is_file())
    need = preset.num_bytes + max(preset.num_bytes, preset.converted_bytes) - have
    free = shutil.disk_usage(cache_dir).free
    if need > free:
        raise WeightsError(
            f"{preset.name} needs {need / 1e9:.1f} GB in {cache_dir}, where {free / 1e9:.1f} GB are free; "
            "choose another place with ASYMSPEC_CACHE or cache_dir"
        )


def _resolve_hub(name: str, *, offline: bool) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise MissingDependencyError("huggingface_hub", "engine") from error
    try:
        path = Path(
            snapshot_download(
                name, allow_patterns=_HUB_FILES, ignore_patterns=_NOT_HUB_FILES, local_files_only=offline
            )
        )
    except Exception as error:  # the hub library raises its own, its HTTP client's and the system's errors
        if isinstance(error, GatedRepoError):
            reason = "its owner must grant access, and you must be logged in to the hub"
        elif isinstance(error, RepositoryNotFoundError):
            reason = "the hub has no such model, or it is private"
        elif isinstance(error, LocalEntryNotFoundError):
            reason = "it was not fetched before"
            if not offline:
                reason += f", and no hub answered ({_first_line(error.__cause__ or error)})"
        else:
            reason = _first_line(error)
        raise WeightsError(f"the hub model {name} cannot be had: {reason}. {_ways_out(name)}") from error
    _check_folder(path, f"the hub model {name}")
    return path


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:200]}".splitlines()[0]


def _check_folder(folder: Path, label: str) -> None:
    """Raises WeightsError naming everything that a transformers folder must have and `folder` lacks."""
    if not folder.is_dir():
        raise WeightsError(f"{label} is a file; a folder with config.json and safetensors is needed")
    missing = list(_missing_from(folder))
    if missing:
        raise WeightsError(f"{label} is not a whole transformers folder: {', '.join(missing)}")


def _missing_from(folder: Path) -> Iterator[str]:
    config = folder / "config.json"
    if not config.is_file():
        yield "no config.json"
    elif not isinstance(_read_json(config), dict):
        yield "config.json is not a JSON object"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        content = _read_json(index)
        shards = content.get("weight_map") if isinstance(content, dict) else None
        if isinstance(shards, dict):
            names = sorted({str(shard) for shard in shards.values()})
            yield from (f"no {shard}" for shard in names if not (folder / shard).is_file())
        else:
            yield f"{index.name} has no weight map"
    elif not any(folder.glob("*.safetensors")):
        yield "no *.safetensors"
    if not any(True for pattern in _TOKENIZER_FILES for _ in folder.glob(pattern)):
        yield "no tokenizer files"


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _unknown_name(text: str) -> str:
    if "/" in text or os.sep in text or text.startswith(("~", ".")):
        return f"there is no folder {text!r}. {_ways_out(text)}"
    return f"{text!r} is neither a folder nor a preset. {_ways_out(text)}"


def _ways_out(text: str) -> str:
    known = {spelling.lower(): preset.name for preset in PRESETS.values() for spelling in _spellings(preset)}
    close = difflib.get_close_matches(text.lower(), known, n=1, cutoff=0.75)
    guess = f"Did you mean the preset {known[close[0]]}? " if close else ""
    return (
        f"{guess}Ways on: a preset ({', '.join(PRESETS)}), a local folder with config.json, safetensors and "
        "tokenizer, or a model of the hub as owner/name"
    )


def _spellings(preset: Preset) -> tuple[str, ...]:
    return preset.name, preset.source_model, preset.source_model.rpartition("/")[2]
