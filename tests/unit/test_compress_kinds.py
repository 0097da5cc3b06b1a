"""Markdown, diffs, HTML, languages with braces, what columns hold, and prose by another compressor."""

from __future__ import annotations

import ast
import json
import sysconfig
import warnings
from pathlib import Path

import pytest

from asymspec_agents.compress import AutoCompressor, ContentKind, Rendition
from asymspec_agents.compress.brace_source import parse_braces
from asymspec_agents.compress.html_text import page_text
from asymspec_agents.compress.json_broken import mended_lines
from asymspec_agents.compress.json_tree import parse, write
from asymspec_agents.compress.markdown import blocks
from asymspec_agents.compress.python_source import parse_python
from asymspec_agents.tokens import EstimateCounter, TokenCounter

COUNTER = EstimateCounter()
FILLER = "Some words about nothing in particular, as they are found in handbooks. " * 4


def shorten(text: str, target_tokens: int, query: str = "", kind: ContentKind | None = None) -> str:
    made = AutoCompressor().compress(text, query=query, target_tokens=target_tokens, counter=COUNTER)
    assert kind is None or made.kind == kind
    assert COUNTER.count(made.text) <= target_tokens
    return made.text


HANDBOOK = "# Handbook\n\n" + "\n".join(
    f"## Part {number}\n\n{FILLER}\n\n```python\ndef f{number}(x):\n    return x * {number}\n```\n\n"
    f"| name | n |\n|---|---|\n| part{number} | {number} |\n"
    for number in range(30)
)


def test_markdown_blocks_are_the_text() -> None:
    found = blocks(HANDBOOK)
    assert "\n".join(block.text for block in found) == HANDBOOK
    assert {block.kind for block in found} == {"heading", "fence", "table", "text"}


def test_markdown_keeps_what_is_asked_under_its_heading_with_fences_closed() -> None:
    pytest.importorskip("bm25s")
    shortened = shorten(HANDBOOK, 400, "what is in part17", kind="markdown")
    assert "| part17 | 17 |" in shortened
    assert shortened.index("## Part 17\n") < shortened.index("| part17 | 17 |")
    assert shortened.startswith("# Handbook\n")
    assert shortened.count("```") % 2 == 0


def test_a_long_fence_is_shortened_by_its_kind_and_closed() -> None:
    code = "\n".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n" for i in range(100))
    shortened = shorten(f"# Title\n\nText.\n\n## Code\n\n```python\n{code}\n```\n\nThe end.\n", 400)
    assert shortened.count("```") == 2
    assert "def f0(x):" in shortened


def diff(num_files: int) -> str:
    return "\n".join(
        f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n@@ -1,9 +1,9 @@\n"
        + "\n".join(f" context line {i}" for i in range(4))
        + f"\n-old value {n}\n+new value {n}\n"
        + "\n".join(f" context line {i}" for i in range(5, 9))
        for n in range(num_files)
    )


def test_a_diff_loses_context_before_changes() -> None:
    text = diff(8)
    shortened = shorten(text, COUNTER.count(text) * 3 // 4, kind="diff")
    assert "context line" not in shortened
    for number in range(8):
        assert f"--- a/f{number}.py\n+++ b/f{number}.py\n@@ -1,9 +1,9 @@\n […]\n" in shortened
        assert f"-old value {number}\n+new value {number}\n" in shortened


def test_hunks_left_out_of_a_diff_are_counted() -> None:
    shortened = shorten(diff(200), 300, kind="diff")
    assert "hunks left out …]" in shortened
    assert shortened.startswith("diff --git a/f0.py b/f0.py\n")


PAGE = (
    "<!DOCTYPE html><html><head><title>T</title><style>p {}</style>"
    "<script>var s = '<p>no</p>';</script></head>"
    "<body><nav><a href='/'>Home link</a></nav><main><h1>The title</h1>"
    + "".join(f"<h2>Part {n}</h2><p>{FILLER} Number {n} &amp; more.</p>" for n in range(60))
    + "<ul><li>one <b>thing</b></li></ul></main><footer>Imprint</footer></body></html>"
)


def test_a_page_is_its_main_text() -> None:
    for page in (PAGE, PAGE * 12):  # the second is too long for trafilatura
        text = page_text(page)
        assert "Number 3 & more." in text
        assert "## Part 3" in text
        assert "- one" in text
        assert not any(gone in text for gone in ("var s", "Home link", "Imprint"))


def test_a_page_is_shortened_as_text_and_says_so() -> None:
    pytest.importorskip("bm25s")
    shortened = shorten(PAGE, 300, "what of number 41?", kind="html")
    assert "Number 41 & more." in shortened
    assert "characters of markup left out; sha256:" in shortened.split("\n")[-1]


@pytest.mark.parametrize("piece", ["<nav>", "<", "<a ", "<script", "<main>", "<!--", "&", "<p>x"])
def test_odd_pages_cost_linear_time(piece: str) -> None:
    page_text("<html>" + piece * 100_000)


JAVA = """\
package a.b;

/** A thing. */
public class Thing extends Base {
    private final String text = "} not the end {";

    public int area(int width, int height) {
        // {{{ not code
        int result = width * height;
        char open = '{';
        return result;
    }

    interface Inner {
        void call();
        void other();
    }
}
"""


def test_braces_keep_declarations_and_drop_bodies() -> None:
    source = parse_braces(JAVA)
    shortened = source.elided(source.function_bodies())
    assert "public int area(int width, int height) { /* … 4 lines … */ }\n" in shortened
    assert "void call();" in shortened
    assert "int result" not in shortened
    assert source.elided([]) == JAVA


def _bodies(text: str) -> set[tuple[int, int]]:
    """First and last line of the outermost functions' bodies, as Python's own parser has them."""
    found, pending = set(), list(ast.parse(text).body)
    lines = text.splitlines()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(
                [node.body[0].lineno, *(d.lineno for d in getattr(node.body[0], "decorator_list", ()))]
            )
            if not lines[first - 1][: node.body[0].col_offset].strip():
                found.add((first, node.body[-1].end_lineno or 0))
        else:
            inner = (ast.stmt, ast.excepthandler, ast.match_case)
            pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, inner))
    return found


def test_python_structure_is_what_pythons_parser_says() -> None:
    num_bodies = 0
    folder = Path(sysconfig.get_paths()["stdlib"])
    for name in ("argparse", "ast", "dataclasses", "inspect", "logging/__init__", "typing", "zipfile"):
        path = folder / f"{name}.py"
        if not path.is_file():
            continue
        text = path.read_text("utf-8")
        source = parse_python(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _bodies(text)
            ast.parse(source.elided(source.function_bodies()))
            ast.parse(source.elided(source.definition_bodies()))
            for statement in source.statements():
                ast.parse(statement)
        lines = text.splitlines()
        for body in source.function_bodies():
            first, last = body.first_line, body.last_line
            while not lines[first - 1].strip() or lines[first - 1].lstrip().startswith("#"):
                first += 1
            while (first, last) not in expected and lines[last - 1].lstrip().startswith("#"):
                last -= 1
            while (first, last) not in expected and not lines[last - 1].strip():
                last -= 1
            assert (first, last) in expected
            num_bodies += 1
    assert num_bodies > 300


def test_python_that_does_not_parse_keeps_its_signatures() -> None:
    text = "def first(a, b):\n    print 'python two'\n    return a\n\n\n" * 30
    text += "def cut(x):\n    y = '''open"
    shortened = shorten(text, COUNTER.count(text) * 2 // 3, kind="code")
    assert shortened.count("def first(a, b):\n    ...") > 20


def rows(number: int) -> list[dict[str, object]]:
    return [
        {"id": i, "status": "failed" if i == number // 2 else "ok", "price": 9e9 if i == 77 else i % 10}
        for i in range(number)
    ]


def test_json_rows_tell_their_columns_and_keep_what_is_unusual() -> None:
    shortened = json.loads(shorten(json.dumps(rows(400)), 300, kind="json"))
    kept = [row["id"] for row in shortened if isinstance(row, dict)]
    assert {0, 77, 200, 399} <= set(kept)
    told = next(entry for entry in shortened if isinstance(entry, str) and "of all" in entry)
    assert "of all 400: id 0…399; status ok ×399, failed ×1; price" in told


def test_tables_tell_their_columns_and_keep_what_is_unusual() -> None:
    lines = ["id,status,price", *(f"{row['id']},{row['status']},{row['price']}" for row in rows(400))]
    shortened = shorten("\n".join(lines), 400, kind="table").split("\n")
    assert {lines[1], lines[78], lines[201], lines[400]} <= set(shortened)
    assert shortened[-2].startswith("[… of all 400 rows: id 0…399; status ok ×399, failed ×1; price 0…")


@pytest.mark.parametrize("indent", [None, 2])
def test_long_json_is_what_the_standard_parser_reads(indent: int | None) -> None:
    value = {"rows": rows(2_000), "numbers": [1.5, 10**30] * 9_000, "empty": [[], {}, ""], "deep": [[[1]]]}
    assert json.loads(write(parse(json.dumps(value, indent=indent)))) == value
    lines = mended_lines("\n".join(map(json.dumps, rows(50)))).value
    assert json.loads(write(lines)) == rows(50)


@pytest.mark.parametrize(
    "wrong", ["[{0},]", "[{0} {0}]", "[{0}}}", "{{{0}}}", '{{"a":{0},"b"}}', "[{0}]]", "[,{0}]"]
)
def test_long_text_that_is_no_json_is_told(wrong: str) -> None:
    text = wrong.format(json.dumps(rows(1_000)))
    with pytest.raises(ValueError, match=r"."):
        parse(text)


class Shouting:
    configuration = "shouting/1"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        return Rendition("SHORT", "shouting", "text")


def test_prose_may_be_compressed_by_another_compressor() -> None:
    compressor = AutoCompressor(prose=Shouting())
    assert "shouting/1" in compressor.configuration
    for text, kind in ((FILLER * 20, "text"), (PAGE, "html")):
        made = compressor.compress(text, query="", target_tokens=200, counter=COUNTER)
        assert made.text.startswith("SHORT")
        assert made.kind == kind
