"""Logs, tables and code: which lines are kept, and that the rest is accounted for."""

from __future__ import annotations

import ast
import re

import pytest

from asymspec_agents.compress.base import Compressor
from asymspec_agents.compress.code import Code
from asymspec_agents.compress.log import Log
from asymspec_agents.compress.table import Table
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
TRACE = """\
2026-11-29 10:06:40 ERROR worker 3 failed
Traceback (most recent call last):
  File "job.py", line 3, in run
    step()
ValueError: bad value"""
LOG = "\n".join(
    [f"2026-11-29 10:00:{i % 60:02d} INFO handled request {i}" for i in range(300)]
    + [TRACE]
    + [f"2026-11-29 10:07:{i % 60:02d} INFO handled request {i}" for i in range(300, 600)]
)
CSV = "id,name,mail\n" + "\n".join(f"{i},user {i},u{i}@example.com" for i in range(500))
PYTHON = '''\
"""A module."""

import os


@cache
def area(width: float, height: float) -> float:
    """The area. In square metres.

    More text."""
    result = width * height
    return result


class Shape(Base):
    """A shape."""

    sides: int = 0

    async def draw(self, *, colour="red") -> None:
        # a comment
        for _ in range(10):
            print("a long line of code that draws the shape in its colour")
        if colour:
            def inner(): return "\\d"
            inner()

    def one_liner(self): return 1


def _hidden():
    raise ValueError("a statement long enough that it is worth eliding here")
'''


def shorten(compressor: Compressor, text: str, target_tokens: int, query: str = "") -> str:
    rendition = compressor.compress(text, query=query, target_tokens=target_tokens, counter=COUNTER)
    assert COUNTER.count(rendition.text) <= target_tokens
    assert short_reference(text) in rendition.text
    return rendition.text


def num_rows(shortened: str, unit: str) -> int:
    """Rows kept and rows that gap markers say were left out."""
    gaps = re.findall(rf"\[… ([\d,]+) {unit}s? left out …\]", shortened)
    lines = [line for line in shortened.split("\n") if not line.lstrip("#/ ").startswith("[…")]
    return len(lines) + sum(int(gap.replace(",", "")) for gap in gaps)


def test_a_logs_error_and_trace_are_kept_whole() -> None:
    shortened = shorten(Log(), LOG, 300)
    assert TRACE in shortened
    assert shortened.startswith("2026-11-29 10:00:00 INFO handled request 0")
    assert "INFO handled request 599" in shortened
    assert num_rows(shortened, "line") == LOG.count("\n") + 1


def test_repeated_log_lines_are_counted() -> None:
    assert "request 0  [… and 599 like it …]" in shorten(Log(), LOG, 300)


def test_a_tables_header_and_rows_stay_whole() -> None:
    shortened = shorten(Table(), CSV, 200)
    lines = shortened.split("\n")
    assert lines[0] == "id,name,mail"
    assert "499,user 499,u499@example.com" in lines
    assert all(line in CSV.split("\n") or line.startswith("[…") for line in lines)
    assert num_rows(shortened, "row") == 501


def test_a_tables_matching_row_is_kept() -> None:
    pytest.importorskip("bm25s")
    assert "\n345,user 345," in shorten(Table(), CSV, 200, query="mail of user 345")


def test_a_csv_field_with_line_breaks_stays_in_its_row() -> None:
    text = "id,note\n" + "\n".join(f'{i},"first\nsecond, {i}"' for i in range(300))
    shortened = shorten(Table(), text, 200)
    assert shortened.count('"first\n') == shortened.count("\nsecond, ") == shortened.count('"') // 2


def test_markdown_tables_keep_both_header_lines() -> None:
    text = "| id | name |\n|---|---|\n" + "\n".join(f"| {i} | user {i} |" for i in range(300))
    assert shorten(Table(), text, 150).startswith("| id | name |\n|---|---|\n| 0 | user 0 |")


def signatures(source: str) -> list[str]:
    """Names of the definitions, nested functions aside."""
    tree = ast.parse(source)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    methods = [m for n in found if isinstance(n, ast.ClassDef) for m in n.body if hasattr(m, "name")]
    return [node.name for node in found] + [method.name for method in methods]


def test_python_keeps_signatures_and_first_docstring_lines() -> None:
    shortened = shorten(Code(), PYTHON, COUNTER.count(PYTHON) - 10)
    assert signatures(shortened) == ["area", "Shape", "_hidden", "draw", "one_liner"]
    assert (
        '@cache\ndef area(width: float, height: float) -> float:\n    """The area. In square metres."""'
        in shortened
    )
    assert "result = width" not in shortened
    assert "sides: int = 0" in shortened


@pytest.mark.parametrize("target_tokens", range(40, 220, 20))
def test_python_stays_python_at_any_size(target_tokens: int) -> None:
    ast.parse(shorten(Code(), PYTHON * 3, target_tokens))


def test_python_functions_that_match_keep_their_body() -> None:
    pytest.importorskip("bm25s")
    text = PYTHON + "\n" + "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y * y\n" for i in range(40))
    shortened = shorten(
        Code(), text, COUNTER.count(text) * 2 // 3, query="How is the area computed from width?"
    )
    assert "result = width * height" in shortened
    ast.parse(shortened)


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_python_with_other_line_ends(ending: str) -> None:
    text = PYTHON.replace("\n", ending)
    assert "area" in signatures(shorten(Code(), text, COUNTER.count(PYTHON) - 10))


def test_other_languages_keep_declarations() -> None:
    text = "\n".join(
        f"export function f{i}(a, b) {{\n  const x = a + b;\n  return x * {i};\n}}\n" for i in range(60)
    )
    shortened = shorten(Code(), text, 300)
    declared = [line for line in shortened.split("\n") if line.startswith("export function")]
    assert declared[0] == "export function f0(a, b) { /* … 2 lines … */ }"
    assert len(declared) > 5
    assert "return x" not in shortened
    assert num_rows(shortened, "line") + 3 * 60 == text.count("\n") + 1
