"""HTML and e-mail to Markdown."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage, Message
from typing import Any

from .limits import Converted, Limits, Losses, joined
from .page import drop_hidden, show_fields

__all__ = ["convert_html", "convert_mail", "markdown"]

_UNSEEN = ("script", "style", "template", "head")
_BLANK_LINES = re.compile(r"\n{3,}")
_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_LONG_DATA_URL = re.compile(r"\(data:[^)\s]{100,}\)")


def convert_html(data: bytes, limits: Limits) -> Converted:
    """All that the page shows as Markdown, with the values in its forms; scripts and styles are not text."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(data, "html.parser")
    title = soup.title.get_text() if soup.title is not None else ""
    return Converted(joined([_markdown(soup)], limits, "the rest"), " ".join(title.split()) or None)


def markdown(html: str) -> str:
    """A piece of HTML as Markdown."""
    from bs4 import BeautifulSoup

    return _markdown(BeautifulSoup(html, "html.parser"))


def _markdown(soup: Any) -> str:
    from markdownify import MarkdownConverter

    num_hidden = drop_hidden(soup)
    for element in soup(_UNSEEN):
        if not element.decomposed:
            element.decompose()
    show_fields(soup)
    try:
        text: str = MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False).convert_soup(soup)
    except MemoryError:
        raise
    except Exception:  # elements nested by the thousand, attributes that are no numbers
        text = soup.get_text("\n")
    if num_hidden:
        text += f"\n\n[{num_hidden:,} hidden element{'s' if num_hidden != 1 else ''} left out]"
    text = _LONG_DATA_URL.sub("(data)", text)
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def convert_mail(data: bytes, limits: Limits) -> Converted:
    """An e-mail's sender, receivers, date, subject and text; its attachments are named."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    subject, losses = _field(message, "Subject"), Losses()
    text = joined(_mail(message, losses), limits, "the rest")
    return Converted(text, subject or None, num_lost=losses.count)


def _mail(message: EmailMessage, losses: Losses) -> Iterator[str]:
    for name in _FIELDS:
        value = _field(message, name)
        if value:
            yield f"{name}: {value}"
    yield ""
    body: Any = None
    try:
        body = message.get_body(("plain", "html"))
        if body is not None:
            text = _content(body)
            yield markdown(text) if body.get_content_subtype() == "html" else text
    except (MemoryError, RecursionError):
        raise
    except Exception:  # headers of all kinds of mailers: the parser raises more than it documents
        yield losses.mark("its text")
    for part in message.walk():
        try:
            if part is not body and not part.is_multipart() and (part.get_filename() or part.is_attachment()):
                name = " ".join((part.get_filename() or "unnamed").split())
                yield f"[attachment, not converted: {name} ({part.get_content_type()})]"
        except Exception:
            yield losses.mark("an attachment's name")


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
