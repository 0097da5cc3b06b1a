"""Files of questions as parts: what is read of each kind, what stands for images, which files are found."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from evals import unpacking
from evals.attached import AttachedFiles, image_part, inside
from evals.sample import LongPart
from tests.attachments.files import ENCRYPTED, archive, docx, image, paragraph, pdf, slides


class Reader:
    """A text reader without models."""

    configuration = "reader/1"

    def read(self, png: bytes) -> str:
        return "ENTRY 12"


@pytest.fixture(scope="module")
def files() -> Iterator[AttachedFiles]:
    with Attachments(AttachmentPolicy(), text_reader=Reader()) as attachments:
        yield AttachedFiles(attachments)


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(1)
        made.setframerate(8_000)
        made.writeframes(bytes(80))
    return buffer.getvalue()


READ = [
    ("a.csv", b"fish,kg\ncod,3\n", "cod,3"),
    ("a.json", json.dumps({"fish": "cod"}).encode("utf-16"), '"cod"'),
    ("a.py", "print('Ünï')".encode("latin-1"), "Ünï"),
    ("a.pdf", pdf(["Cod weighs 3 kg"]), "Cod weighs 3 kg"),
    ("a.pptx", slides("Fish of the year"), "Fish of the year"),
    ("a.docx", docx(paragraph("Three fish")), "Three fish"),
    ("a.png", image("PNG"), "ENTRY 12"),
    ("a.bmp", image("BMP"), "ENTRY 12"),
    ("wrong.txt", image("JPEG"), "ENTRY 12"),
    ("a.zip", archive({"sub/x.csv": "fish,kg\ncod,3", "__MACOSX/x": "y"}), "cod,3"),
]
TOLD = [
    ("a.mp3", b"ID3\x03" + bytes(64), "MP3 audio"),
    ("a.wav", sound(), "WAV audio"),
    ("a.mp4", b"\x00\x00\x00\x18ftypisom" + bytes(64), "MP4 media"),
    ("a.zip", archive({"x.zip": archive({"y.txt": "hidden"})}), "ZIP archive"),
    ("a.zip", archive({}), "not supported"),
    ("a.zip", b"PK\x03\x04 broken", "not supported"),
    ("a.pdf", b"%PDF-1.7 broken", "not converted"),
    ("a.pdf", ENCRYPTED, "not converted"),
    ("a.png", image("PNG")[:40], "not be described"),
    ("a.xlsx", b"PK\x03\x04 broken", "not converted"),
    ("a.txt", b"", "not read: it is empty"),
    ("a.bin", bytes(range(256)), "not supported"),
    ("a.pdf", None, 'file "a.pdf" not read: it is missing'),
]


@pytest.mark.parametrize(("name", "data", "text"), READ, ids=[name for name, _, _ in READ])
def test_files_are_read(files: AttachedFiles, name: str, data: bytes, text: str) -> None:
    read = files.read(name, data)
    assert name in read.text
    assert text in read.text
    assert read.is_complete


@pytest.mark.parametrize(("name", "data", "text"), TOLD)
def test_what_cannot_be_read_is_told(files: AttachedFiles, name: str, data: bytes | None, text: str) -> None:
    read = files.read(name, data)
    assert text in read.text
    assert not read.is_complete
    assert read.part(False) == {"type": "text", "text": read.text}


def test_the_drafter_sees_formats_that_models_take(files: AttachedFiles) -> None:
    seen = files.read("a.png", image("PNG"))
    assert seen.part(True)["image_url"]["url"].startswith("data:image/png;base64,")
    assert seen.part(False) == {"type": "text", "text": seen.text}
    assert seen.long_part(1, 2, True) == LongPart(1, 2, seen.text)
    assert seen.long_part(1, 2, False) == LongPart(1, 2)
    other = files.read("a.bmp", image("BMP"))
    assert other.part(True) == {"type": "text", "text": other.text}
    assert other.long_part(1, 2, True) == LongPart(1, 2)


def test_archives_are_read_within_limits(files: AttachedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive({"a.txt": "first", "b.txt": "x" * 100, "c.txt": "third", "d.txt": "fourth"})
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 3)
    monkeypatch.setattr(unpacking, "MAX_BYTES", 50)
    read = files.read("many.zip", data)
    assert read.text.startswith('[archive "many.zip": 4 files; sha256:')
    assert "first" in read.text
    assert '[file "b.txt" not read: it cannot be unpacked]' in read.text
    assert "third" in read.text
    assert '[file "d.txt" not read: it cannot be unpacked]' in read.text
    assert not read.is_complete


def test_damaged_members_are_told(files: AttachedFiles) -> None:
    data = archive({"a.txt": "some text that is packed " * 20, "b.txt": "whole"})
    at = data.index(b"a.txt") + 20
    read = files.read("x.zip", data[:at] + bytes(byte ^ 255 for byte in data[at : at + 6]) + data[at + 6 :])
    assert '[file "a.txt" not read: it cannot be unpacked]' in read.text
    assert "whole" in read.text


@given(st.integers(0, 300), st.binary(min_size=1, max_size=8))
def test_any_damage_to_an_archive_is_borne(at: int, damage: bytes) -> None:
    data = archive({"a.txt": "some text " * 20, "b.txt": "whole"})
    members = unpacking.members_of(data[:at] + damage + data[at + len(damage) :])
    assert members is None or len(members) <= 2


@given(st.text(max_size=40), st.binary(max_size=60))
def test_any_file_is_a_text(files: AttachedFiles, name: str, data: bytes) -> None:
    read = files.read(name, data)
    assert read.text
    assert read.image is None or image_part(data) == read.image


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("a.txt", True), ("sub/b.txt", True), ("../a.txt", False), ("sub/../a.txt", False), ("", False)],
)
def test_only_files_inside_are_found(tmp_path: Path, name: str, is_found: bool) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "a.txt", folder / "sub" / "b.txt", tmp_path / "a.txt"):
        path.write_text("text")
    assert (inside(folder, name) is not None) is is_found
    assert inside(folder, str(folder / "a.txt")) is None
