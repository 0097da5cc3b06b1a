"""HTML as text: headings, paragraphs, lists and table rows, without scripts, styles and navigation.

Of pages up to 300,000 characters trafilatura finds the main text where the extra `compress` has it. Longer
pages, and those in which it finds next to nothing, are read tag by tag.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..tokens import TokenCounter
from .base import Compressor, Rendition
from .marker import left_out, short_reference

__all__ = ["HtmlContent", "page_text"]

_MAX_EXTRACTED_CHARS = 300_000
_MIN_SHARE = 0.3  # of the text that the tags hold: less is no main text but a mistake
_DROPPED = (
    "script",
    "style",
    "nav",
    "footer",
    "aside",
    "noscript",
    "svg",
    "template",
    "form",
    "head",
    "iframe",
)
_TAG = re.compile(r"<!--|<(/?)([a-zA-Z][a-zA-Z0-9-]{0,30})|<[!?]")
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "p div section article main header ul ol dl table tbody thead figure blockquote pre address details "
        "h1 h2 h3 h4 h5 h6 li tr dt dd hr br figcaption summary body title caption",
    )
)
_OPENINGS = {"li": "- ", "td": " | ", "th": " | ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


@cache
def _extractor_name() -> str:
    try:
        import trafilatura
    except ImportError:
        return "tags"
    return f"trafilatura-{trafilatura.__version__}"


@dataclass(frozen=True, slots=True)
class HtmlContent:
    """Shortens a page's main text by a compressor for prose; a marker tells that the markup is gone."""

    prose: Compressor
    extractor: str = field(default_factory=_extractor_name)

    @property
    def configuration(self) -> str:
        return f"html/1(extractor={self.extractor},prose={self.prose.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the prose compressor's smallest where that is larger."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "html", "html")
        main = page_text(text)
        marker = left_out(max(len(text) - len(main), 1), short_reference(text), "characters of markup")
        room = target_tokens - counter.count(f"\n{marker}")
        made = self.prose.compress(main, query=query, target_tokens=max(room, 0), counter=counter)
        whole = f"{made.text}\n{marker}"
        if made.text and counter.count(whole) <= target_tokens:
            return Rendition(whole, "html", "html", made.degraded)
        return self.prose.compress(text, query=query, target_tokens=target_tokens, counter=counter)


def page_text(page: str) -> str:
    """The main text of an HTML page, one block a line."""
    text = _by_tags(page)
    if len(page) <= _MAX_EXTRACTED_CHARS and _extractor_name() != "tags":
        main = _by_trafilatura(page)
        if len(main) >= _MIN_SHARE * len(text):
            return main
    return text


def _by_trafilatura(page: str) -> str:
    import trafilatura

    try:
        found: Any = trafilatura.extract(
            page, output_format="markdown", include_tables=True, include_comments=False, include_links=False
        )
    except Exception:  # whatever a page may do to a parser, the tags can still be read
        return ""
    return found if isinstance(found, str) else ""


def _by_tags(page: str) -> str:
    """The text between the tags; a main or article element alone where the page has one."""
    written: list[str] = []
    unclosed: set[str] = set()
    at = 0
    while (match := _TAG.search(page, at)) is not None:
        written.append(page[at : match.start()])
        closes, name = match.group(1), (match.group(2) or "").lower()
        if not name:
            end = page.find("-->" if match.group() == "<!--" else ">", match.end())
            at = len(page) if end < 0 else end + 1 + 2 * (match.group() == "<!--")
            continue
        tag_end = page.find(">", match.end())
        if tag_end < 0:
            at = len(page)
            break
        at = tag_end + 1
        if name in _DROPPED and not closes:
            closing = None if name in unclosed else _closing(name).search(page, at)
            if closing is not None:
                at = closing.end()
            elif name in ("script", "style"):
                at = len(page)
            else:
                unclosed.add(name)
            continue
        if name in ("main", "article"):
            written.append("\x00" if not closes else "\x01")
        if name in _BLOCKS:
            written.append("\n\n" if name in ("p", "h1", "h2", "h3", "section", "table") else "\n")
        if not closes:
            written.append(_OPENINGS.get(name, ""))
    written.append(page[at:])
    text = html.unescape("".join(written))
    start, end = text.find("\x00"), text.rfind("\x01")
    if 0 <= start < end and end - start > _MIN_SHARE * len(text):
        text = text[start:end]
    text = text.replace("\x00", "").replace("\x01", "")
    text = "\n".join(_SPACES.sub(" ", line).strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip()


@cache
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(f"</{name}[^>]*>", re.I)
