"""A copy of a model whose vocabulary has as many rows as another model's.

vLLM pairs a drafter only with a verifier of the same vocabulary size, while families pad theirs differently
(Qwen2.5: 151,936 rows up to 3B, 152,064 from 7B on). The rows added are zero; their ids are beyond every
tokenizer, and AsymSpec never emits those.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError, IncompatibleModelsError

__all__ = ["UNPADDED_KEY", "Padding", "pad_drafter", "vocab_size_of"]

UNPADDED_KEY = "unpadded_vocab_size"
INDEX_NAME = "model.safetensors.index.json"
OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack")
_LAYER_INDEX = re.compile(r"\.\d+\.")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Padding:
    """What was made: the folder, both vocabulary sizes, and the tensors that got rows."""

    folder: Path
    old_vocab_size: int
    new_vocab_size: int
    tensors: tuple[str, ...]


def pad_drafter(
    source: Path, target: Path, vocab_size: int, *, progress: Progress = lambda text: None
) -> Padding:
    """Writes the padded copy of the model in folder `source` to the new folder `target`.

    `progress` hears of every weights file. Raises ConfigurationError for folders that can't be used, and
    IncompatibleModelsError where the vocabulary is larger already or no tensor has its size.
    """
    config = _read_config(source)
    old = _vocab_size(config, source)
    if vocab_size <= old:
        raise IncompatibleModelsError(
            f"{source} has {old:,} rows, not fewer than {vocab_size:,}; "
            "pad the model with the smaller vocabulary, or use the pair as it is"
        )
    files = sorted(source.glob("*.safetensors"))
    if not files:
        raise ConfigurationError(f"{source} has no *.safetensors; convert the model first")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigurationError(f"{target} exists and is not empty; name a new folder")
    target.mkdir(parents=True, exist_ok=True)
    padded: list[str] = []
    num_bytes = 0
    for file in files:
        progress(file.name)
        written = _pad_file(file, target / file.name, old, vocab_size)
        padded += written.names
        num_bytes += written.num_bytes
    if not padded:
        shutil.rmtree(target)
        raise IncompatibleModelsError(f"no tensor of {source} has {old:,} rows outside the layers")
    _copy_others(source, target)
    _write_config(config, target, old, vocab_size)
    _write_index(source, target, num_bytes)
    return Padding(target, old, vocab_size, tuple(padded))


@dataclass(frozen=True, slots=True)
class _Written:
    names: list[str]
    num_bytes: int


def _pad_file(source: Path, target: Path, old: int, new: int) -> _Written:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {}
    names = []
    with safe_open(source, framework="pt") as opened:
        metadata = opened.metadata()
        for name in opened.keys():  # noqa: SIM118 (no mapping)
            tensor = opened.get_tensor(name)
            is_of_vocabulary = tensor.dim() > 0 and tensor.shape[0] == old and not _LAYER_INDEX.search(name)
            if is_of_vocabulary:
                rows = torch.zeros((new - old, *tensor.shape[1:]), dtype=tensor.dtype)
                tensor = torch.cat((tensor, rows))
                names.append(name)
            tensors[name] = tensor
    save_file(tensors, target, metadata=metadata)
    return _Written(names, sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()))


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{folder} has no config.json; name the folder of a model") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"{path} is not a model's configuration")
    return config


def _vocab_size(config: dict[str, Any], folder: Path) -> int:
    size = config.get("vocab_size")
    if not isinstance(size, int):
        raise ConfigurationError(f"{folder}/config.json names no vocab_size; only text models are padded")
    return size


def vocab_size_of(folder: Path) -> int:
    """The rows of the vocabulary of the model in a folder. Raises ConfigurationError."""
    return _vocab_size(_read_config(folder), folder)


def _copy_others(source: Path, target: Path) -> None:
    skipped = {path for pattern in OTHER_WEIGHTS for path in source.glob(pattern)}
    for path in sorted(source.iterdir()):
        is_ours = path.suffix == ".safetensors" or path.name in ("config.json", INDEX_NAME)
        if path.is_file() and not is_ours and path not in skipped:
            shutil.copy2(path, target / path.name)


def _write_config(config: dict[str, Any], target: Path, old: int, new: int) -> None:
    changed = {**config, "vocab_size": new, UNPADDED_KEY: config.get(UNPADDED_KEY, old)}
    (target / "config.json").write_text(json.dumps(changed, indent=2) + "\n", "utf-8")


def _write_index(source: Path, target: Path, num_bytes: int) -> None:
    path = source / INDEX_NAME
    if path.is_file():
        index = json.loads(path.read_text("utf-8"))
        index["metadata"] = {**index.get("metadata", {}), "total_size": num_bytes}
        (target / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", "utf-8")
