"""Text is told from other bytes, and read in the encoding it is written in."""

from __future__ import annotations

import base64
import io
import math
import struct
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from asymspec_agents.attachments import Attachments
from asymspec_agents.attachments.kinds import kind_of
from asymspec_agents.attachments.plain_text import decode, encoding_of, is_text
from tests.attachments.files import shown

POLISH = "Zażółć gęślą jaźń; proszę o fakturę za część zamówienia.\n"
RUSSIAN = "Привет, это обычный текст письма, который мы получили вчера.\n"
GERMAN = "name;preis\nKäse;1,50 €\n"
FRENCH = "L’été dernier, j’ai mangé des crêpes à la crème près de l’hôtel.\n"


def _wave(width: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(width)
        made.setframerate(8_000)
        curve = [math.sin(step / 9) for step in range(9_000)]
        if width == 1:
            made.writeframes(bytes(128 + int(60 * value) for value in curve))
        else:
            made.writeframes(b"".join(struct.pack("<h", int(9_000 * value)) for value in curve))
    return buffer.getvalue()


def _picture(kind: str, colour: str = "white", size: tuple[int, int] = (600, 120)) -> bytes:
    buffer = io.BytesIO()
    picture = Image.new("RGB", size, colour)
    ImageDraw.Draw(picture).text((30, 30), "hi", fill="red")
    picture.save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("colour", ["white", "black", "silver"])
@pytest.mark.parametrize(("kind", "name"), [("BMP", "BMP"), ("PPM", "PPM"), ("TGA", "TGA")])
def test_bright_pictures_are_no_text(kind: str, name: str, colour: str) -> None:
    data = _picture(kind, colour)
    assert (kind_of(data).name, kind_of(data).group) == (name, "image")
    assert f'[image "a.txt": {name}, 600×120, ' in shown(Attachments(), _data(data, "text/plain"))


@pytest.mark.parametrize(
    "data",
    [
        _wave(1),
        _wave(2),
        _wave(1)[60:],
        b"\xff" * 1_000,
        b"\xff\xfe" + b"\xff" * 1_000,
        b"\xf0" * 1_000,
        bytes(min(255, 150 + int(60 * math.sin(step / 40))) for step in range(9_000)),
        struct.pack("<500f", *(step / 7 for step in range(500))),
        struct.pack("<500h", *range(1, 501)),
        struct.pack("<500i", *range(500)),
    ],
)
def test_other_bytes_are_no_text(data: bytes) -> None:
    assert kind_of(data).group == "other"
    assert not is_text(data, "iso-8859-1") or data.startswith(b"RIFF")


def _data(data: bytes, media_type: str) -> dict[str, object]:
    url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": "a.txt", "file_data": url}}


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (POLISH, "cp1250"),
        (POLISH, "iso-8859-2"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (GERMAN, "cp850"),
        (GERMAN, "iso-8859-15"),
        (GERMAN, "utf-16-le"),
        ("Добрый день\n", "utf-16-be"),
        ("日本語のテキストです。\n", "iso-2022-jp"),
        ("이것은 시험 문서입니다.\n", "euc-kr"),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_stated_encoding_is_believed(
    attachments: Attachments, text: str, encoding: str, quote: str
) -> None:
    text = text.replace("€", "¤") if encoding in ("cp850",) else text
    given = _data(text.encode(encoding), f"text/plain; charset={quote}{encoding}{quote}")
    assert shown(attachments, given).partition("\n")[2] == text


@pytest.mark.parametrize("stated", ["iso-8859-2", "no-such-thing", "base64", "unicode_escape", "ascii"])
def test_utf_8_goes_before_what_is_stated(stated: str) -> None:
    assert decode(RUSSIAN.encode(), stated) == RUSSIAN


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        (GERMAN * 20, "cp1252"),
        ("Müller", "cp1252"),
        (FRENCH, "cp1252"),
        (POLISH, "cp1250"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN * 20, "koi8-r"),
        ("日本語のテキストです。カタカナも、漢字もあります。\n", "shift_jis"),
        ("日本語のテキストです。カタカナも、漢字もあります。\n", "euc_jp"),
        ("中文文本内容测试，这是一个普通的句子。\n", "gbk"),
        ("이것은 시험 문서입니다. 안녕하세요.\n", "euc_kr"),
        (GERMAN, "utf-32-le"),
    ],
)
def test_an_encoding_is_found(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_broken_place_does_not_change_the_encoding() -> None:
    text = RUSSIAN * 20
    broken = b"\xff" + text.encode()
    assert decode(broken) == "\ufffd" + text
    assert decode(broken, "cp1251") == "\ufffd" + text


def test_a_percent_encoded_text_is_read_as_stated(attachments: Attachments) -> None:
    for header in ("data:text/plain;charset=iso-8859-1,M%FCller", "data:,M%FCller"):
        part = {"type": "file", "file": {"file_data": header}}
        assert shown(attachments, part).endswith("]\nMüller")


def test_a_page_is_read_as_its_sender_states(attachments: Attachments) -> None:
    page = f"<html><meta charset='cp1252'><p>{RUSSIAN}</p></html>".encode("cp1251")
    text = shown(attachments, _data(page, "text/html;charset=windows-1251"))
    assert "Привет, это обычный" in text


def test_one_content_in_two_encodings_is_two_texts(attachments: Attachments) -> None:
    data = RUSSIAN.encode("cp1251")
    assert RUSSIAN in shown(attachments, _data(data, "text/plain;charset=cp1251"))
    assert RUSSIAN not in shown(attachments, _data(data, "text/plain;charset=koi8-r"))


@given(st.binary(max_size=400), st.none() | st.sampled_from(["cp1250", "utf-16", "big5", "hz", "utf-7", "x"]))
def test_any_bytes_are_told_and_decoded(data: bytes, stated: str | None) -> None:
    encoding = encoding_of(data, stated)
    assert is_text(data, stated) == (encoding is not None)
    assert "\r" not in decode(data, stated)
