"""The page: one HTML file with everything in it, which asks no network for anything and runs no data as code.

Its policy lets run only the scripts and styles whose hashes it names; data stand in an element that is never
run, with every `<` escaped, and the scripts write them as text only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["render_page"]

SCRIPTS = ("dom", "diff", "bars", "tokens", "position", "views", "list", "search", "call", "compare", "main")


def render_page(data: dict[str, Any], title: str) -> str:
    """The page for a story's or a comparison's data."""
    scripts = [_asset(f"{name}.js") for name in SCRIPTS]
    style = _asset("page.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            "script-src " + " ".join(map(_hash, scripts)),
            "style-src " + _hash(style),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(_unpaired(title))} · asymspec trace</title>\n<style>{style}</style>\n</head>\n"
    )
    body = "".join(f"<script>{script}</script>\n" for script in scripts)
    plain = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: lone surrogates are escaped
    return (
        f"{head}{_asset('body.html')}"
        f'<script type="application/json" id="data">{plain.replace("<", chr(92) + "u003c")}</script>\n'
        f"{body}</body>\n</html>\n"
    )


def _unpaired(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
