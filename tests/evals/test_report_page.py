"""The page: well-formed, self-contained, hostile text shown and never obeyed, big runs capped."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.records import Record
from evals.report import write_report
from evals.report.drill import MAX_SAMPLES
from evals.report.safe import clipped, safe
from evals.report.table import Column, Entry, Table, markdown_table
from evals.suite import Suite

from .made_runs import MadeSuite, answered, make_run, write_run

HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'&amp; </pre></details>"
    "\u202egnp.exe\x00\x1b[31m مرحبا \ud800 \u2028 <!-- ]]> $x^2$ | `code`"
)
VOID = {"meta", "link", "br", "img", "input", "hr", "source"}


@pytest.fixture(autouse=True)
def suite(monkeypatch: pytest.MonkeyPatch) -> MadeSuite:
    made = MadeSuite()

    def named(name: str) -> Suite:
        if name == "made":
            return made
        raise ConfigurationError("unknown")

    monkeypatch.setattr("evals.report.indexed.suite_named", named)
    return made


class Page(HTMLParser):
    """Reads a page strictly: every element closed in its turn, and every id once."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}"
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action", "data", "xlink:href", "srcset"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()


def page_of(folder: Path) -> str:
    write_report(folder, folder.parent / "report")
    return (folder.parent / "report" / "report.html").read_text("utf-8")


def hostile(record: Record) -> Record:
    assert record.output is not None
    calls = (
        record.output.calls[0].model_copy(update={"segments": ((HOSTILE, "fused"), (HOSTILE, "strange"))}),
    )
    views = ({"place": HOSTILE, "role": "user", "full": HOSTILE * 3, "compressed": HOSTILE, "is_cut": True},)
    trajectory = ({"thought": HOSTILE},)
    output = record.output.model_copy(
        update={"answer": HOSTILE, "calls": calls, "views": views, "trajectory": trajectory}
    )
    return record.model_copy(update={"output": output, "groups": {HOSTILE[:40]: HOSTILE[:20]}})


def test_the_page_is_well_formed_and_needs_no_other_file(tmp_path: Path) -> None:
    text = page_of(make_run(tmp_path / "run", num=20))
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert page.tags.count("svg") >= 3
    assert page.tags.count("script") == 1
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    colours = set(re.findall(r"#[0-9a-f]{6}", text[text.index("</style>") :]))
    assert not colours, f"colours that do not follow the page: {colours}"


def test_hostile_answers_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", num=6, change=hostile)
    text = page_of(folder)
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert "&lt;script&gt;alert(1)" in text
    assert "⟨U+202E⟩" in text
    assert "⟨U+D800⟩" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    markdown = (tmp_path / "report" / "report.md").read_text("utf-8")
    assert "<script" not in markdown
    assert "\u202e" not in markdown


def test_origins_are_told_by_more_than_colour(tmp_path: Path) -> None:
    text = page_of(make_run(tmp_path / "run", num=3))
    for kind in ("accepted", "fused", "bonus"):
        assert f'<span class="{kind}" title="{kind}">' in text
        (rule,) = re.findall(rf"^\.{kind} {{(.*?)}}", text, flags=re.MULTILINE)
        assert "text-decoration" in rule
    assert 'class="legend' in text


def test_a_megabyte_of_answer_and_view_is_clipped(tmp_path: Path) -> None:
    huge = "x" * 1_000_000
    view = ({"place": "messages[0].content", "role": "user", "full": huge, "compressed": huge},)
    records = [
        answered(f"q{i}", cell, float(i % 2), answer=huge, views=view, segments=((huge, "accepted"),))
        for i in range(4)
        for cell in ("ceiling", "drafter")
    ]
    text = page_of(write_run(tmp_path / "run", records))
    assert len(text) < 600_000
    assert "characters left out" in text
    Page(text)


def test_many_samples_are_capped_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        answered(f"q{i}", cell, float(cell == "ceiling" and i == 149))
        for i in range(150)
        for cell in ("ceiling", "drafter")
    ]
    text = page_of(write_run(tmp_path / "run", records))
    assert text.count('<details class="sample"') == MAX_SAMPLES
    assert f"{MAX_SAMPLES} of 150 samples are shown" in text
    assert "records.jsonl" in text
    assert text.index("<code>q149</code>") < text.index("<code>q0</code>")  # where arms differ comes first


def test_the_drill_down_has_a_limit_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.report.page.MAX_BYTES", 20_000)
    records = [answered(f"q{i}", "ceiling", 1.0, answer="word " * 500) for i in range(50)]
    text = page_of(write_run(tmp_path / "run", records))
    shown = text.count('<details class="sample"')
    assert 0 < shown < 12
    assert f"{shown} of 50 samples are shown" in text


def test_a_restricted_suite_shows_ids_and_scores_only(tmp_path: Path, suite: MadeSuite) -> None:
    suite.is_restricted = True
    view = ({"place": "p", "role": "user", "full": "SECRET question", "compressed": "SECRET"},)
    records = [
        answered(f"q{i}", "ceiling", 1.0, answer="SECRET answer", views=view, segments=(("SECRET", "plain"),))
        for i in range(5)
    ]
    text = page_of(write_run(tmp_path / "run", records))
    assert "SECRET" not in text
    assert "<code>q3</code>" in text
    for name in ("report.md", "summary.json"):
        assert "SECRET" not in (tmp_path / "report" / name).read_text("utf-8")


def test_text_is_made_safe() -> None:
    assert safe("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#x27;"
    assert safe("x\u202ey\ufeff") == "x⟨U+202E⟩y⟨U+FEFF⟩"
    assert safe("a\r\nb\tc") == "a\nb\tc"
    assert safe("👩\u200d🔬") == "👩\u200d🔬"
    assert clipped("abc", 3) == "abc"
    assert clipped("a" * 10 + "b" * 10, 4).startswith("aa\n… 16 characters")


def test_markdown_cells_cannot_break_their_table() -> None:
    table = Table(
        "",
        (Column("a|b", is_number=False), Column("n")),
        ((Entry("x|y\n[l](http://e) <b>"), Entry("1", "2\n3")),),
    )
    lines = markdown_table(table).splitlines()
    assert len(lines) == 3
    assert {line.count("|") for line in lines} == {3}
    assert "<b>" not in lines[2]
    assert "](" not in lines[2]
    assert "1 2 3" in lines[2]


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_filters_the_samples_and_nothing_overflows(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    text = page_of(make_run(tmp_path / "run", num=20))
    probe = (
        "<script>const [a, r, b] = document.querySelectorAll('.filter select'); r.value = 'beats';"
        "r.dispatchEvent(new Event('change'));"
        "document.title = document.querySelector('output').textContent + '; overflow '"
        "+ (document.documentElement.scrollWidth > innerWidth);</script></body>"
    )
    path = tmp_path / "probe.html"
    path.write_text(text.replace("</body>", probe), "utf-8")
    for width in (1200, 500):
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
        command += [f"--user-data-dir={tmp_path / f'profile{width}'}", "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        (title,) = re.findall(r"<title>(\d+ of .*?)</title>", done.stdout)
        count, total = map(int, re.findall(r"\d+", title)[:2])
        assert 0 < count < total == 20
        assert title.endswith("overflow false")
