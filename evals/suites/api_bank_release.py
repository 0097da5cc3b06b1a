"""API-Bank's dialogues and APIs: from the official repository's folder, or from joined files.

Official layout (AlibabaResearch/DAMO-ConvAI, api-bank): `lv1-lv2-samples/SPLIT/*.jsonl`, a dialogue a file
and a turn a line; `apis/*.py`, whose classes hold the descriptions. The classes are parsed and never run.
Joined files: `dialogues.jsonl` with {file, split, turns} a row, and `api_descriptions.json`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .json_lines import json_lines

__all__ = ["Api", "Dialogue", "read_apis", "read_dialogues"]

_BY_HAND = (
    "get it with `git clone https://github.com/AlibabaResearch/DAMO-ConvAI` and pass its api-bank folder: "
    "--data PATH"
)
_SAMPLES = "lv1-lv2-samples"


@dataclass(frozen=True, slots=True)
class Api:
    """An API as it is described: parameters by name, each with its type and description."""

    name: str
    description: str
    inputs: Mapping[str, Mapping[str, str]]
    outputs: Mapping[str, Any]

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Api:
        """The API of a description in API-Bank's form, as files and searches give it."""
        return cls(
            str(described["name"]),
            str(described.get("description", "")),
            dict(described.get("input_parameters") or {}),
            dict(described.get("output_parameters") or {}),
        )


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue: the file it comes from, its split, its turns."""

    file: str
    split: str
    turns: tuple[Mapping[str, Any], ...]


def read_dialogues(path: Path | None) -> list[Dialogue]:
    """All dialogues, sorted by split and file in the official layout, else in the file's order."""
    root = _root(path)
    joined = root / "dialogues.jsonl"
    if joined.is_file():
        return [_dialogue(row, joined) for row in json_lines(joined)]
    return [
        Dialogue(file.name, file.parent.name, tuple(json_lines(file)))
        for file in sorted((root / _SAMPLES).glob("*/*.jsonl"))
    ]


def read_apis(path: Path | None) -> dict[str, Api]:
    """The described APIs by name; those of levels 1 and 2 go before level 3's of the same name."""
    root = _root(path)
    joined = root / "api_descriptions.json"
    apis: dict[str, Api] = {}
    if joined.is_file():
        rows = _json(joined)
        rows.sort(key=lambda row: row.get("set", "apis") != "apis")
    else:
        rows = [row for file in sorted((root / "apis").glob("*.py")) for row in _classes(file)]
    for row in rows:
        apis.setdefault(str(row.get("name")), Api.of(row))
    if not apis:
        raise ConfigurationError(f"{root} describes no API; {_BY_HAND}")
    return apis


def _dialogue(row: Mapping[str, Any], path: Path) -> Dialogue:
    try:
        return Dialogue(str(row["file"]), str(row["split"]), tuple(row["turns"]))
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"{path}: a dialogue needs file, split and turns ({error})") from error


def _root(path: Path | None) -> Path:
    if path is None:
        raise ConfigurationError(f"API-Bank has no hub release with these levels' dialogues; {_BY_HAND}")
    path = Path(path)
    for root in (path.parent if path.is_file() else path, path / "api-bank"):
        if (root / "dialogues.jsonl").is_file() or any((root / _SAMPLES).glob("*/*.jsonl")):
            return root
    raise ConfigurationError(f"{path} holds no dialogues of API-Bank; {_BY_HAND}")


def _json(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} is no JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigurationError(f"{path} must be a list of objects")
    return rows


def _classes(path: Path) -> Iterator[dict[str, Any]]:
    """What the classes of a source file say of themselves, where that is written out as literals."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read as Python: {error}") from error
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        said = {
            target.id: _literal(statement.value)
            for statement in node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        if isinstance(said.get("description"), str) and isinstance(said.get("input_parameters"), dict):
            yield {"name": node.name, **said}


def _literal(node: ast.expr) -> Any:
    """A literal's value, texts joined by + among them; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return None
