"""The records of BFCL: from the official release in any of the forms it comes in, or from joined files.

The official release is the package bfcl-eval (v4 of the data): `data/BFCL_v4_CATEGORY.json`, JSON lines
despite the name, with the answers under `data/possible_answer/` and the conversations before memory questions
under `data/memory_prereq_conversation/`. A path may be its wheel, the installed or unpacked package, a
checkout of the leaderboard's repository, the data folder itself, or a folder of joined files:
`simple_python.jsonl` whose records hold `ground_truth`, `memory_questions.jsonl`, `memory_answers.jsonl`,
`memory_conversations/`.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .json_lines import Place, json_lines

__all__ = ["BfclRelease"]

_BY_HAND = (
    "get the official release with `pip download --no-deps bfcl-eval==2026.3.23` and pass the wheel: "
    "--data PATH"
)
_WITHIN = ("", "bfcl_eval/data", "data", "berkeley-function-call-leaderboard/bfcl_eval/data")


class BfclRelease:
    """The release at a path, or else the installed package; raises ConfigurationError without one."""

    def __init__(self, path: Path | None = None) -> None:
        self._root: Place = _installed() if path is None else _root(Path(path))

    def questions(self, category: str) -> list[dict[str, Any]]:
        """The questions of a category, each with its `ground_truth`, in the official order."""
        joined = self._root / f"{category}.jsonl"
        if joined.is_file():
            return _with_ids(json_lines(joined), joined)
        return self._joined(
            self._official(f"BFCL_v4_{category}.json"),
            self._official(f"possible_answer/BFCL_v4_{category}.json"),
        )

    def memory_questions(self) -> list[dict[str, Any]]:
        """The memory questions with their `ground_truth`."""
        joined = self._root / "memory_questions.jsonl"
        if joined.is_file():
            return self._joined(joined, self._root / "memory_answers.jsonl")
        return self._joined(
            self._official("BFCL_v4_memory.json"), self._official("possible_answer/BFCL_v4_memory.json")
        )

    def memory_conversations(self, scenario: str) -> list[dict[str, Any]]:
        """The conversations before a scenario's questions, in order."""
        path = self._root / "memory_conversations" / f"memory_{scenario}.jsonl"
        if not path.is_file():
            path = self._official(f"memory_prereq_conversation/memory_{scenario}.json")
        return _with_ids(json_lines(path), path)

    def _official(self, name: str) -> Place:
        path: Place = self._root / name
        if not path.is_file():
            raise ConfigurationError(f"{self._root} has no {name}; {_BY_HAND}")
        return path

    def _joined(self, questions: Place, answers: Place) -> list[dict[str, Any]]:
        """The questions with the answers of the same ids."""
        if not answers.is_file():
            raise ConfigurationError(f"{questions} has no answers beside it: {answers} is missing")
        expected = {one["id"]: one for one in _with_ids(json_lines(answers), answers)}
        asked = _with_ids(json_lines(questions), questions)
        missing = [one["id"] for one in asked if "ground_truth" not in expected.get(one["id"], {})]
        if missing:
            raise ConfigurationError(
                f"{answers} has no ground_truth for {missing[0]!r} ({len(missing)} questions go without)"
            )
        return [{**one, "ground_truth": expected[one["id"]]["ground_truth"]} for one in asked]


def _with_ids(records: Iterable[dict[str, Any]], path: Place) -> list[dict[str, Any]]:
    """The records; each must have a text of its own as `id`."""
    seen: set[str] = set()
    records = list(records)
    for number, record in enumerate(records, 1):
        identity = record.get("id")
        if not isinstance(identity, str) or identity in seen:
            problem = "stands twice" if identity in seen else "must be a text"
            raise ConfigurationError(f"{path}, record {number}: id={identity!r} {problem}")
        seen.add(identity)
    return records


def _installed() -> Path:
    """The data folder of the installed package, which is not imported."""
    found = importlib.util.find_spec("bfcl_eval")
    for place in (found.submodule_search_locations or ()) if found else ():
        if (Path(place) / "data").is_dir():
            return Path(place) / "data"
    raise ConfigurationError(f"the package bfcl-eval is not installed; {_BY_HAND}")


def _root(path: Path) -> Place:
    """The folder with the files; inside a wheel, which is a zip archive, as well."""
    places: list[Place]
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise ConfigurationError(f"{path} is neither a folder nor a wheel; {_BY_HAND}")
        places = [zipfile.Path(path, "bfcl_eval/data/")]
    else:
        places = [path / within for within in _WITHIN]
    for place in places:
        if any(
            (place / name).is_file()
            for name in (
                "BFCL_v4_simple_python.json",
                "BFCL_v4_memory.json",
                "simple_python.jsonl",
                "multiple.jsonl",
                "parallel.jsonl",
                "memory_questions.jsonl",
            )
        ):
            return place
    raise ConfigurationError(f"{path} holds no BFCL records; {_BY_HAND}")
