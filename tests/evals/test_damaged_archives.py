"""Archives that are damaged, locked, or packed in a way that Python lacks are errors that name them."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.reading import read_rows
from evals.suites.json_lines import json_lines
from evals.suites.mathvista_release import _zipped

NAME = "rows.jsonl"
TEXT = "".join(json.dumps({"number": number}) + "\n" for number in range(200))


@pytest.fixture(params=["other bytes", "a password", "an unknown method"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(NAME, TEXT)
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    if request.param == "other bytes":
        start = 30 + len(NAME)
        data[start:central] = b"\xff" * (central - start)
    elif request.param == "a password":
        struct.pack_into("<H", data, 6, 1)
        struct.pack_into("<H", data, central + 8, 1)
    else:
        struct.pack_into("<H", data, 8, 77)
        struct.pack_into("<H", data, central + 10, 77)
    path.write_bytes(data)
    return path


def test_records_in_it(archive: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"data\.zip cannot be read"):
        read_rows(archive, NAME)


def test_lines_in_it(archive: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl cannot be read"):
        json_lines(zipfile.Path(archive, NAME))


def test_pictures_in_it(archive: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"data\.zip cannot be read"):
        _zipped(archive, NAME)
