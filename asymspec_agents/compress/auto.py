"""What kind of content a text is, and the compressor for each kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..tokens import TokenCounter
from .base import Compressor, ContentKind, Rendition
from .code import Code
from .diff import Diff
from .extractive import extraction
from .headtail import HeadTail
from .html_text import HtmlContent
from .json_broken import LITERAL_START
from .json_content import JsonContent, JsonLines
from .log import Log
from .log_signs import is_output
from .markdown import Markdown
from .mentioned import Mentioned
from .ranking import Ranker, default_ranker
from .table import Table
from .tool_catalog import ToolCatalog

__all__ = ["AutoCompressor", "detect_kind"]

_SAMPLE_CHARACTERS = 32_768
_SAMPLE_LINES = 200
_MAX_PARSED_LINE = 100_000
_NUM_PARSED_LINES = 10

_JSON_START = re.compile(r'\s*(?:\{\s*(?:"|\})|\[\s*(?:[\[{\]"0-9-]|true|false|null|NaN))')
_OPENED_JSON = re.compile(  # of which even the beginning says what it is
    r'\s*(?:\[\s*){0,3}(?:\{\s*"(?:[^"\\]|\\.){0,200}"\s*:\s*(?:["\[{0-9-]|true|false|null)|\[\s*")'
)
_HTML_START = re.compile(
    r"\s*<(?:!doctype\s+html|html|head|body|div|table|article|section|main|p|ul|span)\b", re.I
)
_LOG_LINE = re.compile(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|\w{3} +\d{1,2} \d\d:\d\d:\d\d)"
    r"|(?:\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b)"
    r"|(?:\S+ ){1,3}\[\d\d/\w{3}/\d{4}:"  # web servers' access logs
)
_TRACE_LINE = re.compile(
    r'\s*File "[^"]+", line \d|\s+at \S+ ?\(|\s+from \S+:\d+:in |Traceback \(most recent call last\)'
    r"|\S+:\d+(?::\d+)?: (?:fatal )?(?:error|warning|note)\b"
)
_PYTHON_LINE = re.compile(
    r"\s*(?:(?:async )?def \w+\(|class \w+[(:]|import \w|from [\w.]+ import |@\w+|if __name__)"
)
_CODE_LINE = re.compile(
    r".*[;{}]\s*$|\s*(?:func|fn|function|public|private|protected|#include|#define|package|using|namespace|struct|"
    r"interface|const|let|var|return|SELECT|CREATE|INSERT)\b.*[({=;,]|[\w']+ +:: \S"
    r"|.*\) ?\{$|.*; ?(?:do|then)$|\s*(?:done|fi|esac|end)$|\s*(?:local|export|readonly) \w+=|\s*echo [\"'$]"
)
_KEY_LINE = re.compile(r"""\s*(?:- )?["']?[\w./-]+["']?:(?:\s|$)|\s*- \S|\s*#|---$""")
_DIFF_FILE = re.compile(r"diff |--- \S|Index: ")
_DIFF_BODY = re.compile(
    r"@@ -[0-9]+(?:,[0-9]+)? \+[0-9]+(?:,[0-9]+)? @@|similarity index [0-9]|rename from |copy from "
    r"|Binary files |GIT binary patch|(?:new file|deleted file|old) mode [0-9]"
)
_COMMIT_LINE = re.compile(
    r"commit [0-9a-f]{7}|[A-Z][A-Za-z]+: |    | \S.{0,300}\|| [0-9,]+ files? changed|---$"
)
_MAX_DIFF_OPENING = 35  # lines of any kind before the first file
_MARKDOWN_HEADING = re.compile(r"#{1,6} \S")
_DELIMITERS = ("\t", "|", ",", ";")
_INTRODUCTION = re.compile(r"(?:[^\n]{0,300}\n){1,4}?(?=[\[{])")
_LABEL = re.compile(r"[^\n]{1,80}:[ \t]*\r?\n")


def detect_kind(text: str) -> ContentKind:
    """The kind that a look at the first 32,768 characters tells; `text` for everything else.

    A JSON document is told by its first and last characters; its compressor finds out whether it is one.
    """
    sample = text[:_SAMPLE_CHARACTERS]
    if len(sample) < len(text):
        sample = sample[: sample.rfind("\n") + 1] or sample
    lines = [line for line in sample.split("\n") if line.strip()][:_SAMPLE_LINES]
    if not lines:
        return "text"
    if _JSON_START.match(sample):
        if _are_json_lines(lines):
            return "json_lines"
        if text[-64:].rstrip().endswith(("}", "]")):
            return "tool_docs" if _is_tool_catalog(sample) else "json"
        if _OPENED_JSON.match(sample):
            return "json"
    if LITERAL_START.match(sample) and text[-64:].rstrip().endswith(("}", "]", ")")):
        return "json"
    if _HTML_START.match(sample):
        return "html"
    if _is_diff(lines, text):
        return "diff"
    if _is_markdown(lines):
        return "markdown"
    if _share(_LOG_LINE, lines) >= 0.3 or _share(_TRACE_LINE, lines) >= 0.2:
        return "log"
    if _is_table(lines):
        return "table"
    if sum(map(bool, map(_PYTHON_LINE.match, lines))) >= max(1, len(lines) // 25):
        return "code"
    if (
        sample.startswith("#!/")
        or _is_nested(lines)
        or (len(lines) >= 4 and _share(_CODE_LINE, lines) >= 0.4)
    ):
        return "code"
    return "log" if is_output(_sampled_lines(text), text) else "text"


def _introduction(text: str) -> re.Match[str] | None:
    """A few lines of prose before a JSON document that goes to the text's end."""
    found = _INTRODUCTION.match(text)
    if found is None or _JSON_START.match(text) or detect_kind(text) not in ("text", "log"):
        return None
    return found if detect_kind(text[found.end() :]) in ("json", "json_lines", "tool_docs") else None


def _is_diff(lines: list[str], text: str) -> bool:
    """Whether a file's header and what follows one stand at the beginning, or after a commit's own lines."""
    start = next((index for index, line in enumerate(lines) if _DIFF_FILE.match(line)), len(lines))
    if start < len(lines) and not any(map(_DIFF_BODY.match, lines[start + 1 : start + 6])):
        return False
    if start < min(len(lines), _MAX_DIFF_OPENING):
        return True
    stated = sum(map(bool, map(_COMMIT_LINE.match, lines[:start])))
    return stated >= 0.8 * start and (start < len(lines) or "\ndiff --git " in text)


def _is_markdown(lines: list[str]) -> bool:
    """Whether there are headings or fences in text; `# ` alone is a comment in other languages."""
    num_fences = sum(line.startswith(("```", "~~~")) for line in lines)
    headings = [line for line in lines if _MARKDOWN_HEADING.match(line)]
    is_code = sum(map(bool, map(_PYTHON_LINE.match, lines))) >= max(1, len(lines) // 25)
    if num_fences >= 2 or (num_fences and headings):
        return True
    has_second_level = any(line.startswith("##") for line in headings)
    return len(headings) >= 2 and has_second_level and not is_code and len(headings) < len(lines) * 0.6


def _share(pattern: re.Pattern[str], lines: list[str]) -> float:
    return sum(1 for line in lines if pattern.match(line[:400])) / len(lines)


def _are_json_lines(lines: list[str]) -> bool:
    """Whether the first lines are values of their own, all but a few of them."""
    if len(lines) < 2:
        return False
    return sum(map(_is_json_line, lines[:_NUM_PARSED_LINES])) >= 0.7 * len(lines[:_NUM_PARSED_LINES])


def _is_json_line(line: str) -> bool:
    try:
        return len(line) <= _MAX_PARSED_LINE and isinstance(json.loads(line, parse_int=str), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_tool_catalog(sample: str) -> bool:
    opening = sample[:4000]
    return '"name"' in opening and '"parameters"' in opening and '"properties"' in sample


def _is_nested(lines: list[str]) -> bool:
    """Whether keys stand within keys, as in YAML."""
    if len(lines) < 6 or _share(_KEY_LINE, lines) < 0.8:
        return False
    num_opening = sum(line.rstrip().endswith(":") for line in lines)
    return num_opening >= 0.1 * len(lines) and sum(line[0] == " " for line in lines) >= 0.3 * len(lines)


def _sampled_lines(text: str) -> list[str]:
    """Whole lines from the text's start, middle and end."""
    size = _SAMPLE_CHARACTERS // 2
    starts = sorted({0, max((len(text) - size) // 2, 0), max(len(text) - size, 0)})
    return [
        line
        for start in starts
        for line in text[start : start + size].split("\n")[start > 0 :][:_SAMPLE_LINES]
    ]


def _is_table(lines: list[str]) -> bool:
    if len(lines) < 4:
        return False
    for delimiter in _DELIMITERS:
        counts = [line.count(delimiter) for line in lines]
        usual = max(set(counts), key=lambda count: (counts.count(count), count))
        if usual >= (1 if delimiter == "\t" else 2) and counts.count(usual) >= 0.9 * len(counts):
            return True
        if usual == 1 and counts.count(1) >= 0.95 * len(counts) and _are_pairs(lines, delimiter):
            return True
    return False


def _are_pairs(lines: list[str], delimiter: str) -> bool:
    """Whether lines with one delimiter each are two cells, and not sentences that have a comma."""
    num_pairs = sum(
        all(cell and not cell.startswith(" ") for cell in line.split(delimiter)) and line[-1] not in ".!?{(;:"
        for line in lines
    )
    return num_pairs >= 0.95 * len(lines)


@dataclass(frozen=True, slots=True)
class AutoCompressor:
    """Compresses each content by its kind; the default of the router.

    A first line such as `Observation:` that labels what follows is kept, and the rest judged on its own; so
    are a few lines before a JSON document.
    Relevance needs the extra `compress`: without it text is cut to head and tail, and rows to first and last.
    `configuration` says which it is. `prose` takes the place of extraction for running text, the main text
    of HTML and long paragraphs of Markdown; strings within JSON are always extracted from.
    Addresses, paths and identifiers of prose that was left out are listed at its end.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    prose: Compressor | None = None
    head_tail: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        parts = sorted({compressor.configuration for compressor in self._by_kind().values()})
        return f"auto/3({';'.join(parts)})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or a marker alone where the target is smaller."""
        label = _LABEL.match(text) or _introduction(text)
        body = text[label.end() :] if label else text
        kind = detect_kind(body)
        # What is indented below a line belongs to it: a function's head is no label.
        if label is None or kind == "text" or (kind == "code" and body[:1] in (" ", "\t")):
            return self.compress_as(
                detect_kind(text), text, query=query, target_tokens=target_tokens, counter=counter
            )
        label_tokens = counter.count(label.group())
        rendition = self.compress_as(
            kind, body, query=query, target_tokens=target_tokens - label_tokens, counter=counter
        )
        labelled = replace(rendition, text=label.group() + rendition.text)
        if counter.count(labelled.text) <= max(target_tokens, 0) or rendition.text == body:
            return labelled
        return self.compress_as(kind, text, query=query, target_tokens=target_tokens, counter=counter)

    def compress_as(
        self, kind: ContentKind, text: str, *, query: str, target_tokens: int, counter: TokenCounter
    ) -> Rendition:
        """A rendition by the compressor of a kind that the caller knows."""
        compressor = self._by_kind()[kind]
        rendition = compressor.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return replace(rendition, kind=kind)

    def _by_kind(self) -> Mapping[ContentKind, Compressor]:
        ranker, head_tail = self.ranker, self.head_tail
        extracted = extraction(ranker, head_tail)
        leaf = _AsItIs(self._kinds(extracted))
        return {
            **self._kinds(self.prose or extracted),
            "json": JsonContent(ranker, head_tail, leaf),
            "json_lines": JsonLines(ranker, head_tail, leaf),
        }

    def _kinds(self, prose: Compressor) -> dict[ContentKind, Compressor]:
        ranker, head_tail = self.ranker, self.head_tail
        prose = Mentioned(prose)
        as_json, code, table = (
            JsonContent(ranker, head_tail),
            Code(ranker, head_tail),
            Table(ranker, head_tail),
        )
        markdown = Markdown(ranker, prose, code, table)
        return {
            "text": prose,
            "markdown": markdown,
            "html": HtmlContent(markdown if self.prose is None else prose),
            "json": as_json,
            "json_lines": JsonLines(ranker, head_tail),
            "code": code,
            "log": Log(ranker, head_tail),
            "table": table,
            "diff": Diff(ranker, head_tail),
            "tool_docs": ToolCatalog(as_json),
        }


@dataclass(frozen=True, slots=True)
class _AsItIs:
    """Compresses each text by the kind it looks like: strings within JSON, in which JSON is cut as it is."""

    kinds: Mapping[ContentKind, Compressor]

    @property
    def configuration(self) -> str:
        return f"as_it_is/1({';'.join(sorted({part.configuration for part in self.kinds.values()}))})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        kind = detect_kind(text)
        return self.kinds[kind].compress(text, query=query, target_tokens=target_tokens, counter=counter)
