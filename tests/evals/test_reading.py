"""Records are read from every form a release comes in, and what is odd is named with its place."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from evals.reading import Row, located, read_rows

RECORDS = [{"q": "Où?\u2028là", "n": 1.5}, {"q": 'say "no"', "n": None}]
LINES = "\n".join(json.dumps(record, ensure_ascii=False) for record in RECORDS)


def write(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", LINES.encode()),
        ("a.jsonl", b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n").encode() + b"\r\n\r\n"),
        ("a.JSONL", LINES.encode("utf-16")),
        ("a.json", json.dumps(RECORDS).encode()),
        ("a.json", b"\xef\xbb\xbf" + json.dumps(RECORDS, indent=1).encode()),
    ],
)
def test_text_forms(tmp_path: Path, name: str, data: bytes) -> None:
    assert [dict(row.fields) for row in read_rows(write(tmp_path, name, data))] == RECORDS


def test_csv_keeps_line_ends_and_quotes_in_fields(tmp_path: Path) -> None:
    data = '\ufeffproblem,answer\r\n"one, ""two""\nthree",4\r\nx,\r\n'.encode()
    rows = read_rows(write(tmp_path, "a.csv", data))
    assert [dict(row.fields) for row in rows] == [
        {"problem": 'one, "two"\nthree', "answer": "4"},
        {"problem": "x", "answer": ""},
    ]


def test_parquet(tmp_path: Path) -> None:
    records = [{"turns": [{"role": "user", "content": "é"}], "n": 3}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "a.parquet")
    assert [dict(row.fields) for row in read_rows(tmp_path / "a.parquet")] == records


def test_a_zips_member_is_found_in_any_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("__MACOSX/data/a.jsonl", b"\0\0")
        archive.writestr("data/a.jsonl", LINES)
    assert [dict(row.fields) for row in read_rows(tmp_path / "data.zip", "a.jsonl")] == RECORDS
    with pytest.raises(ConfigurationError, match=r"data\.zip holds no b\.jsonl"):
        read_rows(tmp_path / "data.zip", "b.jsonl")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b'{"q": 1}\n{"q": \n', r"a\.jsonl, line 2, is no JSON"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl, record 1, is no JSON object"),
        ("a.jsonl", b"\n \n", "holds no record"),
        ("a.jsonl", b"", "holds no record"),
        ("a.jsonl", b'{"q": "\xff"}', "is no utf-8 text: invalid start byte at byte 7"),
        ("a.jsonl", b"[" * 200_000, "is no JSON"),
        ("a.json", b'{"q": 1}', "must hold a list of records"),
        ("a.csv", b'a,b\n"open', "is no CSV"),
        ("a.parquet", b"PAR1", "is no parquet file"),
        ("a.txt", b"", r"must end in \.jsonl, \.json, \.csv or \.parquet"),
        ("a.zip", b"PK", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_rows(write(tmp_path, name, data), "x.jsonl" if name.endswith("zip") else None)


def test_a_place_is_found_in_a_folder_or_its_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = write(tmp_path / "data", "b.jsonl", b"")
    assert located(file, "a.jsonl") == file
    assert located(tmp_path, "a.jsonl", "b.jsonl") == file
    with pytest.raises(ConfigurationError, match=r"is a folder without a\.jsonl or c\.jsonl"):
        located(tmp_path, "a.jsonl", "c.jsonl")
    with pytest.raises(ConfigurationError, match=r"is no file, and no folder with a\.jsonl"):
        located(tmp_path / "absent", "a.jsonl")


@pytest.mark.parametrize("value", [None, "", "  \n", math.nan, True, [], {}])
def test_a_text_that_is_missing_is_named(value: Any) -> None:
    row = Row("a.jsonl, record 7,", {"q": value, "n": 1})
    with pytest.raises(
        ConfigurationError, match=r"a\.jsonl, record 7, has no text in q or Q; its fields are q, n"
    ):
        row.text("q", "Q")


def test_texts_and_numbers() -> None:
    row = Row("x", {"a": 1969, "b": ["x", "", math.nan, None, 2, " y "], "c": "one", "d": [None, ""]})
    assert row.text("a") == "1969"
    assert row.text("absent", "c") == "one"
    assert row.texts("b") == ("x", "2", " y ")
    assert row.texts("c") == ("one",)
    for name in ("d", "absent"):
        with pytest.raises(ConfigurationError, match=f"x has nothing in {name}"):
            row.texts(name)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.text(), _JSON, max_size=3), min_size=1, max_size=4), st.booleans())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], ascii_only: bool
) -> None:
    lines = "\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in records)
    path = tmp_path_factory.mktemp("records") / "a.jsonl"
    path.write_bytes(lines.encode())
    assert [dict(row.fields) for row in read_rows(path)] == records
