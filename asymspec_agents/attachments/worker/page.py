"""An HTML page as its readers see it: without what is hidden, with what stands in the fields of its forms."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["drop_hidden", "show_fields"]

_HIDING = re.compile(
    r"(?:^|[;{\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|opacity\s*:\s*0*(?:\.0+)?%?|font-size\s*:\s*0*(?:\.0+)?(?:px|pt|em|rem|%)?)\s*(?:!\s*important\s*)?(?:;|\}|$)",
    re.I,
)
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_BLOCK = re.compile(r"@[^{};]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")  # for other media, or for animations
_MAX_RULES = 500
_TICKED = ("checkbox", "radio")
_UNSHOWN = ("hidden", "password", "file", "image")


def drop_hidden(soup: Any) -> int:
    """Takes out what a browser does not show, by attributes, by styles and by style sheets; how much it was.

    Text that its readers cannot see may be meant for a model instead.
    """
    hidden = [
        element
        for element in soup.find_all(True)
        if element.has_attr("hidden") or _HIDING.search(str(element.get("style", "")))
    ]
    for selector in _hiding_selectors(soup):
        try:
            hidden += soup.select(selector)
        except Exception:  # selectors that are no CSS, or that the library does not know
            continue
    dropped = 0
    for element in hidden:
        if not element.decomposed and element.name not in ("html", "body"):
            dropped += bool(element.get_text(strip=True))
            element.decompose()
    return dropped


def _hiding_selectors(soup: Any) -> list[str]:
    sheets = "\n".join(sheet.get_text() for sheet in soup.find_all("style") if not sheet.get("media"))
    rules = _RULE.findall(_BLOCK.sub("", _COMMENT.sub("", sheets)))
    return [selector.strip() for selector, body in rules if _HIDING.search(body)][:_MAX_RULES]


def show_fields(soup: Any) -> None:
    """Puts the values of a form's fields into the text, in brackets; labels end where their field begins."""
    for label in soup.find_all("label"):
        label.insert_after(" ")
    for field in soup.find_all("input"):
        kind = str(field.get("type", "text")).lower()
        if kind in _TICKED:
            shown = "[x] " if field.has_attr("checked") else "[ ] "
        elif kind in _UNSHOWN:
            shown = ""
        else:
            value = " ".join(str(field.get("value") or field.get("placeholder") or "").split())
            shown = f"[{value}] "
        field.replace_with(shown)
    for choice in soup.find_all("option"):
        mark = "[x] " if choice.has_attr("selected") else "[ ] "
        choice.replace_with(f"{mark}{choice.get_text(' ', strip=True)} ")
    for area in soup.find_all("textarea"):
        area.replace_with(f"[{area.get_text().strip()}] ")
    for button in soup.find_all("button"):
        button.insert_before(" ")
        button.insert_after(" ")
