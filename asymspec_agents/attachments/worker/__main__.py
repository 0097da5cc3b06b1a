"""The converting process: reads requests on its standard input, answers on its standard output.

A frame is the length of a JSON object, the object, and the bytes it says follow.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

from .limits import Converted, Limits, RefusedError
from .office import convert_docx, convert_pptx
from .pdf import convert_pdf
from .pictures import convert_picture, convert_svg
from .sheets import convert_xlsx
from .web import convert_html, convert_mail

__all__ = ["main"]

_CONVERTERS: dict[str, Callable[[bytes, Limits], Converted]] = {
    "PDF": convert_pdf,
    "DOCX": convert_docx,
    "XLSX": convert_xlsx,
    "PPTX": convert_pptx,
    "HTML": convert_html,
    "e-mail": convert_mail,
    "SVG": convert_svg,
    "picture": convert_picture,
}
_RECURSION_LIMIT = 10_000
_GRACE_S = 5.0  # after which a hanging process ends itself, should its parent be gone


def main() -> None:
    """Serves requests until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a converter that prints does no harm
    sys.setrecursionlimit(_RECURSION_LIMIT)
    while True:
        prefix = requests.read(8)
        if len(prefix) < 8:
            return
        num_header, num_data = struct.unpack(">II", prefix)
        header = json.loads(requests.read(num_header))
        data = requests.read(num_data)
        _limit_memory(header["max_memory_bytes"])
        faulthandler.dump_traceback_later(header["timeout_s"] + _GRACE_S, exit=True)
        fields, blobs = _answer(header, data)
        faulthandler.cancel_dump_traceback_later()
        _write(answers, fields, blobs)


def _answer(header: dict[str, object], data: bytes) -> tuple[dict[str, object], tuple[bytes, ...]]:
    try:
        limits = Limits(**header["limits"])  # type: ignore[arg-type]
        made = _CONVERTERS[str(header["kind"])](data, limits)
    except RefusedError as error:
        return {"problem": str(error)}, ()
    except ImportError as error:
        return {"missing": (error.name or "").partition(".")[0]}, ()
    except MemoryError:
        return {"problem": "it takes more memory than is allowed"}, ()
    except RecursionError:
        return {"problem": "it is nested too deeply"}, ()
    except Exception as error:  # the error's text may quote the file
        return {"problem": f"it could not be converted ({type(error).__name__})"}, ()
    fields: dict[str, object] = {
        "text": made.text,
        "title": made.title,
        "length": made.length,
        "pages": made.pages,
        "lacks_text": made.lacks_text,
        "num_lost": made.num_lost,
        "num_frames": made.num_frames,
        "scaled": made.scaled,
    }
    return fields, made.pictures


def _limit_memory(max_bytes: int | None) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_CORE, 0)):
        if limit is not None:
            try:
                resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
            except (ValueError, OSError):  # macOS refuses some
                continue


def _write(answers: BinaryIO, fields: dict[str, object], blobs: tuple[bytes, ...]) -> None:
    encoded = json.dumps({**fields, "blobs": [len(blob) for blob in blobs]}).encode()
    answers.write(struct.pack(">I", len(encoded)) + encoded + b"".join(blobs))
    answers.flush()


if __name__ == "__main__":
    main()
