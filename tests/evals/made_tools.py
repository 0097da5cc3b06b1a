"""Made-up records in the forms of the tool suites' releases."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

__all__ = [
    "API_FILES",
    "BFCL",
    "DIALOGUES",
    "FUNCTIONS",
    "call",
    "write_api_bank",
    "write_api_bank_official",
    "write_bfcl",
    "write_bfcl_official",
    "write_bfcl_wheel",
    "write_lines",
]


def call(name: Any, arguments: Any) -> dict[str, Any]:
    """A tool call on the wire; arguments that are no text become JSON."""
    text = arguments if isinstance(arguments, str) or arguments is None else json.dumps(arguments)
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": text}}


FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": "garden.water",
        "description": "Waters a bed of the garden.",
        "parameters": {
            "type": "dict",
            "properties": {
                "bed": {"type": "string", "description": "The bed's name."},
                "litres": {"type": "float", "description": "How much water."},
                "minutes": {"type": "integer"},
                "is_warm": {"type": "boolean", "description": "Warm water.", "default": False},
                "plants": {"type": "array", "items": {"type": "string"}, "description": "Only these."},
                "spot": {"type": "tuple", "items": {"type": "float"}},
                "note": {"type": "any", "description": "Anything."},
                "timer": {
                    "type": "dict",
                    "properties": {"start": {"type": "string"}, "days": {"type": "integer"}},
                    "description": "When.",
                },
                "steps": {
                    "type": "array",
                    "items": {"type": "dict", "properties": {"valve": {"type": "integer"}}},
                },
            },
            "required": ["bed", "litres"],
        },
    },
    {
        "name": "harvest",
        "description": "Picks what is ripe.",
        "parameters": {"type": "dict", "properties": {"bed": {"type": "string"}}, "required": ["bed"]},
    },
]

_QUESTION = [[{"role": "user", "content": "Give the rose bed 4.5 litres, please."}]]
_WATER = {"garden.water": {"bed": ["rose bed", "roses"], "litres": [4.5], "is_warm": ["", False]}}
_HARVEST = {"harvest": {"bed": ["beans"]}}

BFCL: dict[str, list[dict[str, Any]]] = {
    "simple_python": [
        {"id": "simple_python_0", "function": FUNCTIONS[:1], "ground_truth": [_WATER]},
        {"id": "simple_python_1", "function": FUNCTIONS[1:], "ground_truth": [_HARVEST]},
    ],
    "multiple": [{"id": "multiple_0", "function": FUNCTIONS, "ground_truth": [_WATER]}],
    "parallel": [{"id": "parallel_0", "function": FUNCTIONS, "ground_truth": [_HARVEST, _WATER]}],
}
MEMORY_QUESTIONS = [
    {
        "id": "memory_0-gardener-0",
        "question": [[{"role": "user", "content": "How many beds do I have?"}]],
        "scenario": "gardener",
    }
]
MEMORY_ANSWERS = [{"id": "memory_0-gardener-0", "ground_truth": ["7", "seven"], "source": "..."}]
MEMORY_CONVERSATIONS = [
    {
        "id": "memory_prereq_0-gardener-0",
        "question": [
            [{"role": "user", "content": "Bonjour, j'ai un jardin à Besançon."}],
            [{"role": "user", "content": "There are seven beds in it.\nOne is for roses."}],
        ],
    },
    {"id": "memory_prereq_1-gardener-1", "question": [[{"role": "user", "content": "It rained again."}]]},
]


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    """JSON lines, with an empty line at the end as some releases have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records) + "\n", "utf-8")
    return path


def _asked(record: dict[str, Any]) -> dict[str, Any]:
    return {"question": _QUESTION, **record}


def write_bfcl(folder: Path) -> Path:
    """Joined files."""
    for category, records in BFCL.items():
        write_lines(folder / f"{category}.jsonl", [_asked(record) for record in records])
    write_lines(folder / "memory_questions.jsonl", MEMORY_QUESTIONS)
    write_lines(folder / "memory_answers.jsonl", MEMORY_ANSWERS)
    write_lines(folder / "memory_conversations" / "memory_gardener.jsonl", MEMORY_CONVERSATIONS)
    return folder


def write_bfcl_official(
    folder: Path,
    categories: dict[str, list[dict[str, Any]]] = BFCL,
    memory_questions: list[dict[str, Any]] = MEMORY_QUESTIONS,
    memory_answers: list[dict[str, Any]] = MEMORY_ANSWERS,
) -> Path:
    """The official layout, as it stands in the package; returns what `--data` may be."""
    data = folder / "bfcl_eval" / "data"
    for category, records in categories.items():
        questions = [
            {key: value for key, value in _asked(record).items() if key != "ground_truth"}
            for record in records
        ]
        answers = [{"id": record["id"], "ground_truth": record["ground_truth"]} for record in records]
        write_lines(data / f"BFCL_v4_{category}.json", questions)
        write_lines(data / "possible_answer" / f"BFCL_v4_{category}.json", answers)
    write_lines(data / "BFCL_v4_memory.json", memory_questions)
    write_lines(data / "possible_answer" / "BFCL_v4_memory.json", memory_answers)
    write_lines(data / "memory_prereq_conversation" / "memory_gardener.json", MEMORY_CONVERSATIONS)
    return folder


def write_bfcl_wheel(folder: Path) -> Path:
    """A wheel of the package."""
    source = write_bfcl_official(folder / "unpacked")
    wheel = folder / "bfcl_eval-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(source.rglob("*.json")):
            archive.write(path, path.relative_to(source).as_posix())
    return wheel


def _api(name: str, inputs: dict[str, str], description: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_parameters": {
            key: {"type": kind, "description": f"The {key}."} for key, kind in inputs.items()
        },
        "output_parameters": {"status": {"type": "str", "description": "success or failed"}},
        **more,
    }


BOOK = _api("BookTable", {"guests": "list(str)", "count": "int", "time": "str"}, "Books a table.")
DESCRIPTIONS = [
    _api("BookTable", {"who": "str"}, "Another API of this name.", set="lv3_apis"),
    {**BOOK, "set": "apis", "check": "fuzzy"},
    _api("ToolSearcher", {"keywords": "str"}, "Searches for tools.", set="apis"),
    _api("Weather", {"town": "str", "days": "int"}, "Tells the weather.", set="apis"),
]


def _turn(name: str, arguments: dict[str, Any], output: Any, exception: str | None = None) -> dict[str, Any]:
    result = {"api_name": name, "input": arguments, "output": output, "exception": exception}
    return {"role": "API", "api_name": name, "param_dict": arguments, "result": result}


_BOOKED = {"guests": "['Ann', \"O'Neill\"]", "count": "2", "time": "2023-05-01 19:00:00"}
DIALOGUES: list[dict[str, Any]] = [
    {
        "file": "BookTable-level-2-1.jsonl",
        "split": "level-1-given-desc",
        "turns": [
            {
                "role": "User",
                "text": "A table for Ann and O'Neill on May 1st at seven, if it is dry in Köln.",
            },
            {"role": "AI", "text": "Let me look."},
            _turn("Weather", {"town": "Köln", "days": "3"}, None, "no such town"),
            _turn("Weather", {"town": "Koln", "days": "3"}, "dry"),
            {"role": "AI", "text": "It is dry."},
            {"role": "AI", "text": "Shall I book?"},
            {"role": "User", "text": "Yes."},
            _turn("BookTable", _BOOKED, "success"),
            {"role": "AI", "text": "Done."},
        ],
    },
    {"file": "Empty.jsonl", "split": "level-1-given-desc", "turns": []},
    {
        "file": "BookTable-level-3-1.jsonl",
        "split": "level-2-toolsearcher",
        "turns": [
            {"role": "User", "text": "Book a table."},
            _turn("ToolSearcher", {"keywords": "book table"}, BOOK),
            _turn("BookTable", {"count": "2", "wish": "window"}, "success"),
        ],
    },
]


def write_api_bank(folder: Path) -> Path:
    """Joined files."""
    write_lines(folder / "dialogues.jsonl", DIALOGUES)
    (folder / "api_descriptions.json").write_text(json.dumps(DESCRIPTIONS), "utf-8")
    return folder


API_FILES = {
    "add.py": """
from apis.api import API
raise SystemExit("never run")
class BookTable(API):
    description = "Books " + "a table."
    input_parameters = {
        "guests": {"type": "list(str)", "description": "The guests."},
        "count": {"type": "int", "description": "The count."},
        "time": {"type": "str", "description": "The time."},
    }
    output_parameters = {"status": {"type": "str", "description": "success or failed"}}
    def __init__(self): ...
""",
    "tool_search.py": """
class Helper:
    size = 3
class ToolSearcher(API):
    description = 'Searches for ' \\
                  'tools.'
    input_parameters = {'keywords': {'type': 'str', 'description': 'The keywords.'}}
    output_parameters = {}
class Weather(API):
    description = "Tells the weather."
    input_parameters = {
        "town": {"type": "str", "description": "The town."},
        "days": {"type": "int", "description": "The days."},
    }
    output_parameters = {"status": {"type": "str", "description": "success or failed"}}
""",
}


def write_api_bank_official(folder: Path, dialogues: list[dict[str, Any]] = DIALOGUES) -> Path:
    """The official repository's folder."""
    for name, source in API_FILES.items():
        path = folder / "apis" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    for dialogue in dialogues:
        write_lines(folder / "lv1-lv2-samples" / dialogue["split"] / dialogue["file"], dialogue["turns"])
    return folder
