"""Files for tests: office documents by their libraries, the rest written by hand."""

from __future__ import annotations

import base64
import io
import zipfile
from typing import Any

import openpyxl
import pptx
from PIL import Image

from asymspec_agents.attachments import Attachments
from asymspec_agents.messages import parse_messages
from asymspec_agents.store import MemoryStore

CONTENT_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONSHIPS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="word/document.xml" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>'
)


def pdf(pages: list[str], *, title: str = "", trailer: str = "") -> bytes:
    """A PDF with one line of text a page; a page of no text has a filled square."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for text in pages:
        drawing = f"BT /F1 18 Tf 40 700 Td ({text}) Tj ET" if text else "50 50 300 300 re f"
        objects.append(f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} "
        f"/Root 1 0 R /Info {len(objects)} 0 R {trailer} >>\nstartxref\n{len(body)}\n%%EOF"
    )
    return body + end.encode()


ENCRYPTED = pdf(
    ["secret"],
    trailer=f"/ID [<{'00' * 16}><{'00' * 16}>] /Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -44 "
    f"/O <{'11' * 32}> /U <{'22' * 32}> >>",
)


def archive(members: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return buffer.getvalue()


def docx(body: str, **members: bytes | str) -> bytes:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<?xml version="1.0"?><w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    given = {
        "[Content_Types].xml": CONTENT_TYPES,
        "_rels/.rels": RELATIONSHIPS,
        "word/document.xml": document,
    }
    return archive({**given, **members})


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def xlsx(rows: list[list[Any]], title: str = "Sheet") -> bytes:
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return saved(book)


def saved(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def slides(*titles: str) -> bytes:
    deck = pptx.Presentation()
    for title in titles:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
        slide.notes_slide.notes_text_frame.text = f"say {title}"
        table = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table
        table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    return saved(deck)


def image(kind: str = "PNG", size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **options)
    return buffer.getvalue()


def url_of(data: bytes, media_type: str = "application/octet-stream") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def file_part(data: bytes, name: str | None = None) -> dict[str, Any]:
    file = {"file_data": url_of(data)} | ({"filename": name} if name is not None else {})
    return {"type": "file", "file": file}


def image_part(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of(data, "image/png")}}


def shown(attachments: Attachments, part: dict[str, Any], store: MemoryStore | None = None) -> str:
    """The text that stands for the part in both views."""
    messages = parse_messages([{"role": "user", "content": [part]}])
    read = attachments.read(messages, store if store is not None else MemoryStore())
    assert read.full == read.shortened
    (text,) = read.full[0].texts()
    return text
