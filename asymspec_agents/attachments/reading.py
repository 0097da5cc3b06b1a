"""One attachment as text: what it is, then what is in it, then by which means; made once per content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..pixels import MAX_SEEN_BYTES, is_too_narrow
from ..recording import Recorder
from ..store import ContentStore, content_hash
from .converter import Conversion, Converter
from .describing import Captioner, TextReader
from .fetch import FetchError, Resolver, fetch, host_of, resolved
from .image_header import image_size
from .kinds import FileKind, kind_of
from .notes import header, note, quoted, size_of, text_label
from .once import CutOff, Kept, OverdueError
from .parts import Attachment
from .plain_text import decode, is_text
from .policy import AttachmentPolicy

__all__ = ["AttachmentReader", "ReadAttachment"]

_MAX_CAPTION_CHARS = 4_000
_UNSUPPORTED = frozenset({"HEIC"})  # which Pillow cannot read by itself
_SEEN = frozenset({"PNG", "JPEG", "GIF", "WebP", "BMP"})  # that models which see images are shown
_SLACK_S = 1.0  # a fetch keeps its own time; what it is cut off by is for hosts that trick it


@dataclass(frozen=True, slots=True)
class ReadAttachment:
    """The text that stands for an attachment: a line that says what it is, `header_chars` long, and the rest.

    `problem`: why the text is not all that it could be, in words that quote nothing of it. `can_be_seen`: an
    image that a model can be shown, whole and with its bytes in the message.
    """

    text: str
    header_chars: int
    is_image: bool
    problem: str | None = None
    can_be_seen: bool = False


@dataclass(frozen=True, slots=True)
class _Content:
    """What a file's bytes gave, without the name it has here or there."""

    kind: FileKind
    details: tuple[str | None, ...]
    text: str
    problem: str | None = None
    is_whole_image: bool = False


class AttachmentReader:
    """Reads attachments; thread-safe, raises nothing for whatever they hold."""

    def __init__(
        self,
        policy: AttachmentPolicy,
        captioner: Captioner | None,
        text_reader: TextReader | None,
        resolver: Resolver = resolved,
    ) -> None:
        self._policy = policy
        self._captioner = captioner
        self._text_reader = text_reader
        self._resolver = resolver
        self.converter = Converter(policy)
        self._cut_off = CutOff()
        self._contents: Kept[_Content] = Kept(policy.max_cached_bytes)
        self._fetched: Kept[ReadAttachment] = Kept(policy.max_cached_bytes)

    def read(self, attachment: Attachment, store: ContentStore, recorder: Recorder) -> ReadAttachment:
        """The text for the attachment; its bytes go into the store, once however often it is met."""
        if attachment.data is not None:
            return self._of_data(attachment.data, attachment, store, recorder)
        if attachment.url is None or attachment.problem is not None:
            return _unread(attachment, attachment.problem or "it has neither data nor a URL")
        key = (attachment.url, attachment.name, attachment.is_image)
        return self._fetched.get(key, lambda: self._of_url(attachment, store, recorder))

    def _of_url(self, attachment: Attachment, store: ContentStore, recorder: Recorder) -> ReadAttachment:
        url, remote = attachment.url or "", self._policy.remote
        where = host_of(url) if "://" in url else ""
        elsewhere = replace(attachment, name=attachment.name or (f"at {where}" if where else None))
        if remote is None:
            return _unread(elsewhere, "it is a URL, and fetching it is not allowed")
        try:
            data = self._cut_off.run(
                remote.timeout_s + _SLACK_S,
                lambda: fetch(url, remote, self._policy.max_file_bytes, self._resolver),
            )
        except FetchError as error:
            return _unread(elsewhere, str(error))
        except OverdueError:
            return _unread(elsewhere, "its host took too long")
        except Exception as error:  # of the network's many layers
            return _unread(elsewhere, f"it could not be fetched ({type(error).__name__})")
        if not data:
            return _unread(elsewhere, "it is empty")
        return self._of_data(data, elsewhere, store, recorder)

    def _of_data(
        self, data: bytes, attachment: Attachment, store: ContentStore, recorder: Recorder
    ) -> ReadAttachment:
        name, charset = attachment.name, attachment.charset
        digest = content_hash(data)
        _keep(data, digest, store, recorder)
        content = self._contents.get((digest, charset), lambda: self._content(data, charset, recorder))
        is_image = content.kind.group == "image"
        label = content.kind.name if content.kind.group != "text" else text_label(name)
        line = header("image" if is_image else "file", name, (label, *content.details), data)
        text = f"{line}\n{content.text}" if content.text else line
        can_be_seen = content.is_whole_image and attachment.url is None
        return ReadAttachment(text, len(text) - len(content.text), is_image, content.problem, can_be_seen)

    def _content(self, data: bytes, charset: str | None, recorder: Recorder) -> _Content:
        kind = kind_of(data, charset)
        try:
            made = self._image(kind, data) if kind.group == "image" else self._document(kind, data, charset)
        except Exception as error:  # nothing a file holds may end a run
            made = _failed(kind, data, f"it could not be read ({type(error).__name__})")
        if made.problem is not None:
            recorder.record("attachment", kind=kind.name, num_bytes=len(data), problem=made.problem)
        return made

    def _document(self, kind: FileKind, data: bytes, charset: str | None) -> _Content:
        if kind.group == "other":
            return _failed(kind, data, "this kind of file is not supported")
        if kind.group == "text":
            return self._plain(kind, data, charset)
        if kind.name == "HTML" and charset is not None and is_text(data, charset):
            data = decode(data, charset).encode("utf-8-sig", "replace")  # what the sender states goes first
        made = self.converter.convert(kind.name, data, ocr_pages=self._ocr_pages)
        if made.missing_extra is not None and kind.name == "HTML":
            return self._plain(kind, data, charset)  # its source is text as well
        if made.problem is not None:
            return _failed(kind, data, made.problem)
        text = self._with_pages(made)
        is_unread = made.lacks_text and text == made.text
        if not text.strip():
            return _failed(kind, data, "it has no text")
        lost = f"{made.num_lost:,} of its parts could not be read" if made.num_lost else None
        details = (quoted(made.title, "title "), made.length, size_of(text), lost)
        return _Content(kind, details, text, "it has no text layer" if is_unread else lost)

    def _plain(self, kind: FileKind, data: bytes, charset: str | None) -> _Content:
        text, most = decode(data, charset), self._policy.max_text_chars
        num_lines = text.count("\n") + (not text.endswith("\n"))
        details = (f"{num_lines:,} line" + ("s" if num_lines != 1 else ""), size_of(text))
        if not text.strip():
            return _failed(kind, data, "it has no text")
        if len(text) > most:
            text = f"{text[:most]}\n[… the rest left out: over {most:,} characters …]"
        return _Content(kind, details, text)

    @property
    def _ocr_pages(self) -> int:
        return self._policy.max_ocr_pages if self._text_reader is not None else 0

    def _with_pages(self, made: Conversion) -> str:
        """The document's text, and what is read in pictures of its pages."""
        reader = self._text_reader
        if reader is None:
            return made.text
        pieces = [made.text]
        for number, picture in zip(made.pages, made.pictures, strict=False):
            text = self._told(lambda picture=picture: reader.read(picture))  # type: ignore[misc]
            if text:
                pieces.append(f"[page {number}, read from its image]\n{text}")
        return "\n".join(pieces)

    def _image(self, kind: FileKind, data: bytes) -> _Content:
        size = image_size(kind.name, data)
        details = [
            f"{size.width:,}×{size.height:,}" if size is not None else None,
            "animated" if size is not None and size.is_animated else None,
            f"{len(data):,} bytes",
        ]
        if size is not None and size.width * size.height > self._policy.max_pixels:
            return _undescribed(kind, details, f"it has more than {self._policy.max_pixels:,} pixels")
        if kind.name in _UNSUPPORTED:
            return _undescribed(kind, details, "this kind of image is not supported")
        if kind.name == "SVG":
            made = self.converter.convert("SVG", data)
            if made.problem is not None:
                return _undescribed(kind, details, made.problem)
            return _Content(
                kind, tuple(details), f"Text in it:\n{made.text}" if made.text else "No text found in it."
            )
        is_told = self._captioner is not None or self._text_reader is not None
        may_be_seen = (
            self._policy.drafter_sees == "images"
            and kind.name in _SEEN
            and size is not None
            and size.width * size.height <= self._policy.max_seen_pixels
            and len(data) <= MAX_SEEN_BYTES
            and not is_too_narrow(size.width, size.height)
        )
        undescribed = (*details, "not described: no captioner or text reader is set")
        if not is_told and not may_be_seen:
            return _Content(kind, undescribed, "")
        made = self.converter.convert("picture", data, ocr_pages=self._ocr_pages)
        # Without what decodes images here, a model's own decoder has to say whether one is whole.
        is_whole = may_be_seen and (bool(made.pictures) or made.missing_extra is not None)
        if not is_told and (made.pictures or made.missing_extra is not None):
            return _Content(kind, undescribed, "", is_whole_image=is_whole)
        if made.problem is not None or not made.pictures:
            return replace(
                _undescribed(kind, details, made.problem or "it is empty"), is_whole_image=is_whole
            )
        if made.num_frames > 1:
            details.insert(-1, f"{made.num_frames:,} {'pages' if kind.name == 'TIFF' else 'frames'}")
        if made.scaled is not None:
            details.append(f"looked at in {made.scaled[0]:,}×{made.scaled[1]:,}")
        return replace(self._described(kind, details, made), is_whole_image=is_whole)

    def _described(self, kind: FileKind, details: list[str | None], made: Conversion) -> _Content:
        lines, failures = [], 0
        part = "page" if kind.name == "TIFF" else "frame"
        if self._captioner is not None:
            png = made.pictures[0]
            caption = self._told(lambda: self._captioner.describe(png)[:_MAX_CAPTION_CHARS])  # type: ignore[union-attr]
            failures += not caption
            if caption:
                which = f" ({part} 1 of {made.num_frames:,})" if made.num_frames > 1 else ""
                lines.append(f"Shows{which}: {' '.join(caption.split())}")
        if self._text_reader is not None:
            reader = self._text_reader
            written = [
                self._told(lambda png=png: reader.read(png))  # type: ignore[misc]
                for png in made.pictures
            ]
            failures += None in written
            lines += _written(written, made, part, self._policy.max_text_chars)
        if not lines:
            return _undescribed(kind, details, "the captioner or text reader failed")
        problem = "a captioner or text reader failed" if failures else None
        return _Content(kind, (*details, problem), "\n".join(lines), problem)

    def _told(self, ask: Callable[[], str]) -> str | None:
        """What a describer says, None where it fails or takes too long."""
        try:
            told = self._cut_off.run(self._policy.describe_timeout_s, ask)
        except Exception:  # its text may quote the image or an address
            return None
        return told if isinstance(told, str) else None


def _written(texts: list[str | None], made: Conversion, part: str, most: int) -> Iterator[str]:
    """What is written in the pictures of an image, and in which of its pages or frames nothing is found."""
    if made.num_frames == 1:
        if texts[0] is not None:
            yield f"Text in it:\n{texts[0][:most]}" if texts[0].strip() else "No text found in it."
        return
    before, without = "", []
    for number, text in zip(made.pages, texts, strict=True):
        if text is not None and not text.strip():
            without.append(number)
        elif text is not None and text != before:  # a frame like the one before says nothing new
            yield f"Text in {part} {number:,} of {made.num_frames:,}:\n{text[:most]}"
            before = text
    looked = [number for number, text in zip(made.pages, texts, strict=True) if text is not None]
    if without:
        yield f"No text found in {part} {', '.join(f'{number:,}' for number in without)}."
    if looked and len(looked) < made.num_frames:
        yield f"Looked for text in {len(looked):,} of {made.num_frames:,} {part}s."


def _failed(kind: FileKind, data: bytes, problem: str) -> _Content:
    return _Content(kind, (f"{len(data):,} bytes", f"not converted: {problem}"), "", problem)


def _undescribed(kind: FileKind, details: list[str | None], problem: str) -> _Content:
    return _Content(kind, (*details, f"could not be described: {problem}"), "", problem)


def _unread(attachment: Attachment, problem: str) -> ReadAttachment:
    text = note("image" if attachment.is_image else "file", attachment.name, problem)
    return ReadAttachment(text, len(text), attachment.is_image, problem)


def _keep(data: bytes, digest: str, store: ContentStore, recorder: Recorder) -> None:
    """Stores the original; a store that fails (a full disk) costs the reference, not the call."""
    try:
        if digest not in store:
            store.put(data)
    except Exception as error:
        recorder.record("store_failed", error=type(error).__name__)
