"""HTML and e-mail to Markdown."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage, Message
from typing import Any

from .limits import Converted, Limits, joined

__all__ = ["convert_html", "convert_mail", "markdown"]

_UNSEEN = ("script", "style", "template", "head")
_BLANK_LINES = re.compile(r"\n{3,}")
_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_LONG_DATA_URL = re.compile(r"\(data:[^)\s]{100,}\)")


def convert_html(data: bytes, limits: Limits) -> Converted:
    """All of the page's text as Markdown; scripts and styles are not text."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(data, "html.parser")
    title = soup.title.get_text() if soup.title is not None else ""
    return Converted(joined([_markdown(soup)], limits, "the rest"), title.strip() or None)


def markdown(html: str) -> str:
    """A piece of HTML as Markdown."""
    from bs4 import BeautifulSoup

    return _markdown(BeautifulSoup(html, "html.parser"))


def _markdown(soup: Any) -> str:
    from markdownify import MarkdownConverter

    for element in soup(_UNSEEN):
        element.decompose()
    try:
        text: str = MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False).convert_soup(soup)
    except RecursionError:  # elements nested by the thousand
        text = soup.get_text("\n")
    text = _LONG_DATA_URL.sub("(data)", text)
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def convert_mail(data: bytes, limits: Limits) -> Converted:
    """An e-mail's sender, receivers, date, subject and text; its attachments are named."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    subject = _field(message, "Subject")
    return Converted(joined(_mail(message), limits, "the rest"), subject or None)


def _mail(message: EmailMessage) -> Iterator[str]:
    for name in _FIELDS:
        value = _field(message, name)
        if value:
            yield f"{name}: {value}"
    yield ""
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = _content(body)
        yield markdown(text) if body.get_content_subtype() == "html" else text
    for part in message.walk():
        if part is not body and not part.is_multipart() and (part.get_filename() or part.is_attachment()):
            name = part.get_filename() or "unnamed"
            yield f"[attachment, not converted: {name} ({part.get_content_type()})]"


def _field(message: Message, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except Exception:  # headers of all kinds of mailers: the parser raises more than it documents
        return ""


def _content(part: Any) -> str:
    try:
        content: str = part.get_content()
    except (LookupError, UnicodeError, ValueError):  # an unknown character set
        content = (part.get_payload(decode=True) or b"").decode("utf-8", "replace")
    return content.replace("\r\n", "\n")
