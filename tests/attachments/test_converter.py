"""The converting process is ended when it hangs, replaced when it dies, and limited in memory."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

import pytest

from asymspec_agents.attachments import AttachmentPolicy, RemotePolicy
from asymspec_agents.attachments.converter import Converter
from asymspec_agents.errors import ConfigurationError
from tests.attachments.files import archive, docx, paragraph, pdf, xlsx

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def _child(converter: Converter) -> int:
    assert converter._process is not None
    return converter._process.child.pid


@needs_posix
def test_a_hanging_process_is_ended_and_replaced() -> None:
    converter = Converter(AttachmentPolicy(convert_timeout_s=1.0))
    assert converter.convert("PDF", pdf(["x"])).text == "x"
    first = _child(converter)
    os.kill(first, signal.SIGSTOP)  # as a converter that hangs in C code
    late = converter.convert("PDF", pdf(["y"]))
    assert late.problem == "it took longer than 1 seconds"
    assert converter.convert("PDF", pdf(["y"])).text == "y"
    assert _child(converter) != first
    converter.close()


@needs_posix
def test_a_process_that_died_is_replaced() -> None:
    converter = Converter(AttachmentPolicy())
    converter.convert("SVG", b"<svg/>")
    os.kill(_child(converter), signal.SIGKILL)
    time.sleep(0.1)
    assert converter.convert("PDF", pdf(["y"])).text == "y"
    converter.close()


@needs_posix
def test_a_process_that_dies_at_work_is_told() -> None:
    converter = Converter(AttachmentPolicy())
    converter.convert("SVG", b"<svg/>")
    pid = _child(converter)
    os.kill(pid, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    assert converter.convert("PDF", pdf(["y"])).problem == "the converter crashed on it"
    killer.join()
    converter.close()


def test_the_process_ends_with_its_owner() -> None:
    converter = Converter(AttachmentPolicy())
    converter.convert("SVG", b"<svg/>")
    assert converter._process is not None
    child = converter._process.child
    del converter
    gc.collect()
    assert child.poll() is not None


def test_threads_share_one_process() -> None:
    converter = Converter(AttachmentPolicy())
    texts: dict[int, str] = {}

    def convert(number: int) -> None:
        texts[number] = converter.convert("PDF", pdf([f"page {number}"])).text

    threads = [threading.Thread(target=convert, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    converter.close()
    assert texts == {number: f"page {number}" for number in range(8)}


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
def test_memory_is_limited() -> None:
    converter = Converter(AttachmentPolicy(max_memory_bytes=256 * 1024 * 1024, max_text_chars=10**9))
    made = converter.convert("DOCX", docx(paragraph("word " * 30_000_000)))
    assert made.problem is not None
    assert converter.convert("PDF", pdf(["y"])).text == "y"
    converter.close()


def test_every_document_with_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "asymspec_agents.attachments.converter._BOOT",
        "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
        "for name in ('pypdfium2', 'mammoth', 'openpyxl', 'pptx', 'bs4', 'PIL'): sys.modules[name] = None\n"
        "from asymspec_agents.attachments.worker.__main__ import main; main()",
    )
    converter = Converter(AttachmentPolicy())
    for kind, data in (("PDF", pdf(["x"])), ("DOCX", docx("")), ("XLSX", xlsx([])), ("PPTX", archive({}))):
        assert converter.convert(kind, data).problem == (
            'reading it needs: pip install "asymspec-agents[documents]"'
        )
    assert converter.convert("picture", b"x").missing_extra == "vision"
    converter.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("drafter_sees", "all"),
        ("remote", True),
        ("max_file_bytes", 0),
        ("max_pages", 1.5),
        ("max_ocr_pages", -1),
        ("convert_timeout_s", 0),
        ("describe_timeout_s", float("nan")),
        ("max_memory_bytes", 1_000),
        ("max_cached_bytes", True),
    ],
)
def test_policies_are_checked(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}=.*must be"):
        AttachmentPolicy(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schemes", ("file",)),
        ("schemes", ()),
        ("ports", (0,)),
        ("networks", ("10.0.0.0/99",)),
        ("networks", "10.0.0.0/8"),
        ("max_redirects", -1),
        ("timeout_s", 0),
    ],
)
def test_remote_policies_are_checked(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}=.*must be"):
        RemotePolicy(**{field: value})  # type: ignore[arg-type]
