"""Documents become text, and what cannot be converted a note that says why."""

from __future__ import annotations

import re
import struct
from typing import Any

import openpyxl
import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.attachments.kinds import kind_of
from asymspec_agents.store import MemoryStore, content_hash
from tests.attachments import files
from tests.attachments.files import docx, file_part, paragraph, pdf, shown, slides, xlsx

MAIL = (
    b"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
    b"Date: Mon, 30 Nov 2026 08:00:00 +0000\r\nContent-Type: text/html\r\n\r\n<p>Meet at <b>noon</b></p>\r\n"
)
PAGE = (
    "<!DOCTYPE html><title>News</title><script>var x=1</script><h1>Prices</h1><p>Tea costs 4 €.</p>".encode()
)


@pytest.mark.parametrize(
    ("data", "begins", "holds"),
    [
        (
            pdf(["Tea costs 4", "Milk costs 2"], title="Prices"),
            'PDF, title "Prices", 2 pages',
            "[page 2]\nMilk",
        ),
        (docx(paragraph("Tea costs 4")), "DOCX, ", "Tea costs 4"),
        (xlsx([["what", "price"], ["tea", 4.5]]), "XLSX, 1 sheet, 2 rows", "tea\t4.5"),
        (slides("Tea", "Milk"), "PPTX, 2 slides", "## Slide 2: Milk\n| left | right |\nNotes: say Milk"),
        (PAGE, 'HTML, title "News"', "# Prices\n\nTea costs 4 €."),
        (MAIL, 'e-mail, title "Grüße"', "Meet at **noon**"),
        (b"tea,4\nmilk,2\n", "text, 2 lines, 13 characters", "milk,2"),
        ("Tee für 4 €".encode("utf-16"), "text, 1 line", "Tee für 4 €"),
        ("Tee für 4 Euro, schöne Grüße".encode("cp1252"), "text, 1 line", "schöne Grüße"),
    ],
)
def test_a_document_is_its_text(attachments: Attachments, data: bytes, begins: str, holds: str) -> None:
    store = MemoryStore()
    text = shown(attachments, file_part(data, "Prices of 2026"), store)
    head, _, body = text.partition("\n")
    assert head.startswith(f'[file "Prices of 2026": {begins}')
    assert head.endswith(f"; sha256:{content_hash(data)[:12]}]")
    assert holds in body
    assert "var x" not in body
    assert store.get(content_hash(data)) == data


@pytest.mark.parametrize(
    ("data", "kind", "why"),
    [
        (files.ENCRYPTED, "PDF", "it is encrypted"),
        (pdf(["x"])[:120], "PDF", "it is broken or cut short"),
        (docx(paragraph("x"))[:-60], "DOCX", "it is broken or cut short"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted",
            "not supp",
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600,
            "Office file of the old format",
            "not supported",
        ),
        (b"\x7fELF" + b"\x00" * 60, "program", "not supported"),
        (b"\x00\x01\x02\x03" * 50, "binary file", "not supported"),
        (files.archive({"a.txt": "x"}), "ZIP archive", "not supported"),
        (docx(paragraph("x"), **{"word/bomb.xml": b"0" * 40_000_000}), "DOCX", "unpacks to more"),
        (docx(paragraph("x"), **{f"word/{n}.xml": "x" for n in range(10_001)}), "DOCX", "10,000 entries"),
        (
            docx(paragraph("x"), **{"word/styles.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
            "DOCX",
            "its XML declares entities",
        ),
        (
            docx(
                paragraph("x"), **{"word/styles.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a/>'.encode("utf-16")}
            ),
            "DOCX",
            "its XML declares entities",
        ),
        (xlsx([]), "XLSX", "it has no text"),
        (b" \n", "text", "it has no text"),
    ],
)
def test_what_cannot_be_converted_is_named(
    attachments: Attachments, data: bytes, kind: str, why: str
) -> None:
    text = shown(attachments, file_part(data))
    assert re.match(rf"\[file: {kind}", text), text
    assert why in text
    assert "\n" not in text


def test_the_stated_size_of_a_member_is_not_believed(attachments: Attachments) -> None:
    bomb = bytearray(docx(paragraph("x"), **{"word/bomb.xml": b"0" * 40_000_000}))
    entry = bomb.rfind(b"PK\x01\x02")
    bomb[entry + 24 : entry + 28] = struct.pack("<I", 10)
    assert "not converted: it" in shown(attachments, file_part(bytes(bomb)))


def test_a_formula_without_a_value_is_shown() -> None:
    book = openpyxl.Workbook()
    book.active.append([1, 2, "=A1+B1"])
    book.create_sheet("Notes").append(["a\tb\nc", None, True])
    with Attachments() as attachments:
        text = shown(attachments, file_part(files.saved(book)))
    assert "1\t2\t=A1+B1" in text
    assert "## Notes (1 rows, 3 columns)\na b c\t\tTRUE" in text


def test_pages_beyond_the_limit_are_named() -> None:
    with Attachments(AttachmentPolicy(max_pages=2)) as attachments:
        text = shown(attachments, file_part(pdf(["one", "two", "three"])))
        deck = shown(attachments, file_part(slides("a", "b", "c")))
    assert "two" in text
    assert "three" not in text
    assert "[… pages 3 to 3 left out: over 2 pages …]" in text
    assert "[… slides 3 to 3 left out: over 2 slides …]" in deck


@pytest.mark.parametrize("data", [pdf(["word " * 50]), b"word " * 50, docx(paragraph("word " * 50))])
def test_text_beyond_the_limit_is_named(data: bytes) -> None:
    with Attachments(AttachmentPolicy(max_text_chars=100)) as attachments:
        text = shown(attachments, file_part(data))
    assert "left out: over 100 characters" in text
    assert text.count("word") <= 25


def test_pages_without_text_are_read_where_there_is_a_reader() -> None:
    class Reader:
        configuration = "reader/1"

        def read(self, png: bytes) -> str:
            assert png.startswith(b"\x89PNG")
            return "a filled square"

    scanned, mixed = pdf(["", ""]), pdf(["one", "", "three"])
    with (
        Attachments() as without,
        Attachments(AttachmentPolicy(max_ocr_pages=1), text_reader=Reader()) as made,
    ):
        assert "[no text layer: its pages are images]" in shown(without, file_part(scanned))
        assert "[no text layer on 1 of 3 pages: 2]" in shown(without, file_part(mixed))
        read = shown(made, file_part(scanned))
        assert "[page 1, read from its image]\na filled square" in read
        assert "page 2," not in read
        assert "[page 2, read from its image]" in shown(made, file_part(mixed))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (slides("has a workbook inside"), "PPTX"),
        (docx(paragraph("x"), **{"word/embeddings/book.xlsx": xlsx([["x"]])}), "DOCX"),
        (b"%PDF-1.4", "PDF"),
        (b"BMW builds cars\n", "text"),
        (b"From here on: nothing\n\nelse", "text"),
        (b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"", "text"),
    ],
)
def test_kinds_are_told_by_content(data: bytes, kind: str) -> None:
    assert kind_of(data).name == kind


def test_one_content_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Attachments() as attachments:
        asked: list[str] = []
        convert = attachments._reader.converter.convert

        def counted(kind: str, data: bytes, **options: Any) -> Any:
            asked.append(kind)
            return convert(kind, data, **options)

        monkeypatch.setattr(attachments._reader.converter, "convert", counted)
        first, second = (shown(attachments, file_part(pdf(["x"]), name)) for name in ("a.pdf", "b.pdf"))
    assert asked == ["PDF"]
    assert first.replace("a.pdf", "b.pdf") == second


def test_what_stands_beside_the_body_of_a_word_file_is_read_as_well() -> None:
    words = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    maths = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    equation = f"<w:p><m:oMath {maths}><m:r><m:t>a=b</m:t></m:r><m:r><m:t>+1</m:t></m:r></m:oMath></w:p>"
    edge = f"<w:hdr {words}>{paragraph('Confidential, draft 7')}</w:hdr>"
    comment = f"<w:comments {words}><w:comment w:id='0'>{paragraph('Who says so?')}</w:comment></w:comments>"
    parts = {"word/header1.xml": edge, "word/header2.xml": edge, "word/comments.xml": comment}
    text = shown(Attachments(), file_part(docx(paragraph("Tea costs 4") + equation, **parts), "a.docx"))
    assert text.partition("\n")[2].splitlines() == [
        "Tea costs 4",
        "[header or footer] Confidential, draft 7",
        "[comment] Who says so?",
        "[equation] a=b+1",
    ]
