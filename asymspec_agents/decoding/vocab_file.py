"""Vocabulary maps in files: JSON or, by the name's ending, safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .vocab import VocabMap

__all__ = ["load_map", "map_format", "save_map"]

FORMAT = "asymspec-vocab-map"
VERSION = 1
MAX_BYTES = 256 * 1024**2  # a map of two vocabularies of a million tokens has a tenth of that

TEXTS = ("verifier_fingerprint", "drafter_fingerprint", "verifier_name", "drafter_name")
SIZES = ("verifier_size", "drafter_size")
IDS = ("verifier_ids", "drafter_ids")


def save_map(vocab_map: VocabMap, path: Path | str) -> None:
    """Writes the map: as safetensors to a file of that ending, as JSON to `.json`; replaces what is there.

    Raises ConfigurationError for another ending.
    """
    path = Path(path)
    facts = {name: getattr(vocab_map, name) for name in (*TEXTS, *SIZES)}
    if map_format(path) == "json":
        ids = {name: list(getattr(vocab_map, name)) for name in IDS}
        data = json.dumps({"format": FORMAT, "version": VERSION, **facts, **ids}).encode()
    else:
        import torch
        from safetensors.torch import save

        tensors = {name: torch.tensor(getattr(vocab_map, name), dtype=torch.int64) for name in IDS}
        metadata = {"format": FORMAT, "version": str(VERSION), **{k: str(v) for k, v in facts.items()}}
        data = save(tensors, metadata)
    path.write_bytes(data)


def load_map(path: Path | str) -> VocabMap:
    """The map of a file; whether it fits two tokenizers, `VocabMap.check` tells.

    Raises ConfigurationError for a file that is missing, of another kind, or damaged.
    """
    path = Path(path)
    kind = map_format(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigurationError(f"vocab_map={str(path)!r} is larger than {MAX_BYTES:,} bytes: no map")
        data = _read_json(path) if kind == "json" else _read_tensors(path)
    except OSError as error:
        raise ConfigurationError(
            f"vocab_map={str(path)!r} cannot be read: {error.strerror or error}"
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"vocab_map={str(path)!r} is damaged: {error}") from error
    return _checked(data, path)


def map_format(path: Path) -> str:
    """The format that a file's name says; raises ConfigurationError for any but .json and .safetensors."""
    if path.suffix not in (".json", ".safetensors"):
        raise ConfigurationError(f"vocab_map={str(path)!r}: a map is a .json or a .safetensors file")
    return path.suffix[1:]


def _read_json(path: Path) -> Mapping[str, Any]:
    data = json.loads(path.read_bytes())
    return data if isinstance(data, dict) else {}


def _read_tensors(path: Path) -> Mapping[str, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as opened:
            data: dict[str, Any] = dict(opened.metadata() or {})
            for name in set(IDS) & set(opened.keys()):
                data[name] = opened.get_tensor(name).tolist()
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    for name in {"version", *SIZES} & data.keys():
        data[name] = int(data[name])
    return data


def _checked(data: Mapping[str, Any], path: Path) -> VocabMap:
    place = f"vocab_map={str(path)!r}"
    if data.get("format") != FORMAT:
        raise ConfigurationError(f"{place} is no vocabulary map; `asymspec vocab build` writes one")
    if data.get("version") != VERSION:
        raise ConfigurationError(
            f"{place} is of version {data.get('version')!r}; this release reads {VERSION}"
        )
    for name in TEXTS:
        if not isinstance(data.get(name), str):
            raise ConfigurationError(f"{place}: {name} must be a text")
    for name in SIZES:
        if not _is_id(data.get(name)):
            raise ConfigurationError(f"{place}: {name} must be a number of ids")
    for name in IDS:
        ids = data.get(name)
        if not isinstance(ids, list) or not all(map(_is_id, ids)):
            raise ConfigurationError(f"{place}: {name} must be a list of token ids")
    ids = {name: tuple(data[name]) for name in IDS}
    try:
        return VocabMap(**ids, **{name: data[name] for name in (*TEXTS, *SIZES)})
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from error


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
