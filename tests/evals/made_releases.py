"""Ten made-up records of every suite, in the shape of its official release or its documented local form."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from evals.agents.cassettes import Cassette
from tests.attachments.files import pdf, xlsx
from tests.evals import made_tools, mathvista_made
from tests.evals.made_tools import write_lines

__all__ = [
    "CITIES",
    "METADATA",
    "NOISE",
    "NUM_RECORDS",
    "TURNS",
    "challenge",
    "gaia_release",
    "gaia_row",
    "mill",
    "write_cassette",
    "write_csv",
    "write_releases",
]

NUM_RECORDS = 10

CITIES = [f"Town{number:02}" for number in range(45)]
NOISE = "It has a market, a bridge and a tower that was built long ago by people of the valley. " * 8


def mill(number: int, **changes: Any) -> dict[str, Any]:
    """A record in LongBench's format."""
    passages = (f"Mill {number}\nMill {number} stands in {CITIES[number]}. {NOISE}", f"Oak {number}\nAn oak.")
    return {
        "input": f"Where does Mill {number} stand?",
        "context": "\n".join(f"Passage {at}:\n{text}" for at, text in enumerate(passages, start=1)),
        "answers": [CITIES[number]],
        "length": 50,
        "dataset": "hotpotqa",
        "language": "en",
        "all_classes": None,
        "_id": f"q{number}",
        **changes,
    }


TURNS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "I am allergic to nuts. Reply in one line."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "A snack?"},
]


def challenge(**changes: Any) -> dict[str, Any]:
    """A record of MultiChallenge as GitHub has it."""
    return {
        "QUESTION_ID": "q1",
        "AXIS": "INFERENCE_MEMORY",
        "CONVERSATION": TURNS,
        "TARGET_QUESTION": "Is the snack free of nuts?  ",
        "PASS_CRITERIA": "YES",
        **changes,
    }


METADATA = {"Steps": "1. Count.", "Number of steps": "1", "Tools": "none", "Number of tools": "0"}


def gaia_row(task: str, level: str = "1", gold: str = "17", file: str = "", **fields: Any) -> dict[str, Any]:
    """A row of GAIA's table."""
    made = {"task_id": task, "Question": f"What is {task}?", "Level": level, "Final answer": gold}
    path = f"2023/validation/{file}" if file else ""
    return {**made, "file_name": file, "file_path": path, "Annotator Metadata": METADATA, **fields}


def gaia_release(root: Path, rows: list[dict[str, Any]], files: Mapping[str, bytes]) -> Path:
    """A copy of GAIA's gated repository, which is given as its folder 2023/validation."""
    folder = root / "2023" / "validation"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "metadata.parquet")
    return folder


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """A table with these columns."""
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def write_cassette(folder: Path, *answers: tuple[str, dict[str, str], str]) -> str:
    """A cassette of the web that holds these answers to requests of a tool."""
    path = folder / "web.jsonl"
    path.touch()
    recorder = Cassette(path, "record-missing")
    for tool, arguments, text in answers:
        recorder.play(tool, arguments, lambda text=text: text)  # type: ignore[misc]
    return str(path)


def write_releases(folder: Path) -> dict[str, Path]:
    """What `--data` may be, by suite."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = _longbench(folder / "data.zip")
    multihop = folder / "multihop"
    write_lines(multihop / "hotpotqa.jsonl", [mill(number) for number in range(6)])
    write_lines(
        multihop / "musique.jsonl", [mill(number, dataset="musique", length=9_000) for number in range(6, 10)]
    )
    bfcl = _bfcl(folder / "bfcl")
    gaia = gaia_release(folder / "GAIA", *_gaia())
    simpleqa = write_csv(
        folder / "simple_qa_test_set.csv",
        ("metadata", "problem", "answer"),
        [
            (repr({"topic": "Mills"} if number else {}), f"Who owns “Mill {number}”?", f"Ødegård, {number}")
            for number in range(NUM_RECORDS)
        ],
    )
    verified = write_csv(
        folder / "simpleqa_verified.csv",
        ("original_index", "problem", "answer", "topic", "answer_type"),
        [
            (str(number), f"How high is tower {number}?", f"{number} m", "Towers", "Number")
            for number in range(NUM_RECORDS)
        ],
    )
    return {
        **dict.fromkeys(("longbench_2wikimqa", "longbench_hotpotqa", "longbench_musique"), archive),
        **dict.fromkeys(("bfcl_simple", "bfcl_multiple", "bfcl_parallel", "bfcl_memory_context"), bfcl),
        **dict.fromkeys(("multihop", "react_multihop"), multihop),
        **dict.fromkeys(("gaia", "gaia_react"), gaia),
        **dict.fromkeys(("simpleqa", "simpleqa_react"), simpleqa),
        "simpleqa_verified": verified,
        "api_bank": _api_bank(folder / "api-bank"),
        "mathvista": _mathvista(folder / "MathVista"),
        "multi_challenge": _challenges(folder / "benchmark_questions.jsonl"),
    }


def _longbench(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for dataset in ("hotpotqa", "2wikimqa", "musique", "hotpotqa_e"):
            lines = [
                json.dumps(mill(number, dataset=dataset, _id=f"{dataset}{number}", length=3_000 * number))
                for number in range(NUM_RECORDS)
            ]
            archive.writestr(f"data/{dataset}.jsonl", "\n".join(lines) + "\n")
    return path


def _bfcl(folder: Path) -> Path:
    """Each category's records over again, with ids and answers of their own."""
    categories = {
        name: [{**records[number % len(records)], "id": f"{name}_{number}"} for number in range(NUM_RECORDS)]
        for name, records in made_tools.BFCL.items()
    }
    questions = [
        {**made_tools.MEMORY_QUESTIONS[0], "id": f"memory_{number}-gardener-{number}"}
        for number in range(NUM_RECORDS)
    ]
    answers = [{"id": one["id"], "ground_truth": [str(number)]} for number, one in enumerate(questions)]
    return made_tools.write_bfcl_official(folder, categories, questions, answers)


def _api_bank(folder: Path) -> Path:
    """Two dialogues of level 1 and two of level 2: ten calls."""
    made = made_tools.DIALOGUES
    dialogues = [{**one, "file": f"{copy}-{one['file']}"} for copy in (1, 2) for one in made]
    return made_tools.write_api_bank_official(folder, dialogues)


def _mathvista(folder: Path) -> Path:
    made = mathvista_made
    rows = [*made.ROWS, *(made.row(str(number), str(number)) for number in range(5, 10))]
    return made.github(folder, [*rows, made.row("10", "True", choices=["True", "No"], **made.MULTI)])


def _challenges(path: Path) -> Path:
    early = {"role": "user", "content": f"Before that: {NOISE}"}
    axes = ("INFERENCE_MEMORY", "INSTRUCTION_RETENTION", "SELF_COHERENCE", "RELIABLE_VERSION_EDITING")
    records = [
        challenge(
            QUESTION_ID=f"q{number}",
            AXIS=axes[number % len(axes)],
            CONVERSATION=[early, {"role": "assistant", "content": f"Noted, {number}."}, *TURNS[1:]],
            PASS_CRITERIA="YES" if number % 3 else "NO",
        )
        for number in range(NUM_RECORDS)
    ]
    return write_lines(path, records)


def _gaia() -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    files = {
        "0.xlsx": xlsx([["fish", "weight"], *([f"cod {number}", number] for number in range(60))]),
        "1.pdf": pdf(["The mill of Corrin", "has four sails"]),
        "2.mp3": b"ID3\x03" + bytes(64),
        "3.png": mathvista_made.picture(3),
    }
    names = {name.partition(".")[0]: name for name in files} | {"4": "missing.docx"}
    golds = ("1,770", "four, sails", "no", "17", "$4", "sea gull", "1.5", "Corrin Mill", "0", "3; 4")
    rows = [
        gaia_row(str(number), "123"[number % 3], gold, names.get(str(number), ""))
        for number, gold in enumerate(golds)
    ]
    return rows, files
