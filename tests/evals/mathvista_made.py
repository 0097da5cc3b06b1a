"""Made-up problems in the shapes of MathVista's release: GitHub's data folder and the hub's table."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from PIL import Image

__all__ = ["FOUND", "MULTI", "ROWS", "github", "hub", "picture", "row"]


def row(pid: str, answer: str = "14", **fields: Any) -> dict[str, Any]:
    metadata = {
        "split": "testmini",
        "language": "english",
        "img_width": 40,
        "img_height": 30,
        "source": "Made",
        "category": "general-vqa",
        "task": "figure question answering",
        "context": "bar chart",
        "grade": "elementary school",
        "skills": ["statistical reasoning", "arithmetic reasoning"],
    }
    plain = {"choices": None, "unit": None, "precision": None, "answer": answer, "pid": pid}
    kind = {"question_type": "free_form", "answer_type": "integer", "metadata": metadata}
    return {"question": f"How many in {pid}?", "image": f"images/{pid}.jpg", **plain, **kind, **fields}


MULTI = {"question_type": "multi_choice", "answer_type": "text"}
ROWS = [
    row("1"),
    row("2", "12", choices=["1", "12", "123"], **MULTI),
    row("3", "1.2", answer_type="float", precision=1, unit="m"),
    row("4", "[1, 2]", answer_type="list"),
]
CAPTIONS = {"1": "Sure. The image shows bars. I hope this helps!", "2": "Boats  in a row.", "3": None}
FOUND = (
    "[([[5.7, 3], [9, 3], [9, 8], [5, 8]], 'ENTRY', 0.9), ([[10, 3], [19, 3], [19, 8], [10, 8]], '12', 0.5)]"
)
OCRS = {"1": FOUND, "2": "[]", "3": "[(broken", "4": FOUND}


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (number, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def github(
    root: Path, rows: list[dict[str, Any]] = ROWS, *, texts: bool = True, zipped: bool = False
) -> Path:
    """A copy of the repository's data folder, with images beside or in an archive."""
    (root / "texts").mkdir(parents=True)
    (root / "testmini.json").write_text(json.dumps({made["pid"]: made for made in rows}), "utf-8")
    if texts:
        for name, found in (("captions_bard", CAPTIONS), ("ocrs_easyocr", OCRS)):
            (root / "texts" / f"{name}.json").write_text(json.dumps({"model": "x", "texts": found}), "utf-8")
    if zipped:
        with zipfile.ZipFile(root / "images.zip", "w") as archive:
            for made in rows:
                archive.writestr(made["image"], picture(int(made["pid"])))
        return root
    (root / "images").mkdir()
    for made in rows:
        (root / made["image"]).write_bytes(picture(int(made["pid"])))
    return root


def hub(root: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """The hub's table, with images and the built queries in it."""
    (root / "data").mkdir(parents=True)
    made = []
    for one in rows:
        stored = {"bytes": picture(int(one["pid"])), "path": f"{one['pid']}.jpg"}
        precision = None if one["precision"] is None else float(one["precision"])
        made.append(
            {**one, "precision": precision, "decoded_image": stored, "query": f"Asked: {one['question']}"}
        )
    path = root / "data" / "testmini-00000-of-00001-made.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(made), path)
    return path
