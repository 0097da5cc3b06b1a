"""The documentation's Python blocks run as they stand, each on its own; its commands are ones that exist.

A block that needs more than the base says so in a comment on the line before its fence:
`<!-- needs: engine -->` puts it in the full tier, `<!-- needs: smolagents -->` skips it where that extra is
not installed; several extras are separated by commas.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asymspec_agents.cli import frame, vllm
from asymspec_agents.cli import main as cli
from tests.architecture import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)
BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[a-z, ]+) -->\n+)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL
)
PROBE = {
    "engine": "torch",
    "compress": "bm25s",
    "documents": "pypdfium2",
    "gateway": "starlette",
    "json": "json_repair",
    "langchain": "langchain_core",
    "otel": "opentelemetry.sdk",
    "smolagents": "smolagents",
    "vision": "rapidocr",
}


def _blocks() -> list[object]:
    blocks = []
    for page in PAGES:
        path = ROOT / page
        text = path.read_text("utf-8") if path.is_file() else ""
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            needs = [need.strip() for need in (match["needs"] or "").split(",") if need.strip()]
            marks = [pytest.mark.full] if "engine" in needs else []
            blocks.append(pytest.param(path, line, match["code"], needs, marks=marks, id=f"{page}:{line}"))
    return blocks


@pytest.mark.parametrize(("path", "line", "code", "needs"), _blocks())
def test_documented_code_runs(
    path: Path, line: int, code: str, needs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in needs:
        pytest.importorskip(PROBE[extra], reason=f"the extra {extra} is not installed")
    monkeypatch.chdir(tmp_path)
    shifted = "\n" * (line - 1) + code  # so that a traceback names the page's own lines
    exec(compile(shifted, str(path), "exec"), {"__name__": "__main__"})


def test_the_readme_shows_code_that_runs_without_models() -> None:
    blocks = list(BLOCK.finditer((ROOT / "README.md").read_text("utf-8")))
    assert any("engine" not in (block["needs"] or "") for block in blocks)


COMMAND = re.compile(r"^(?:    )?(?:[A-Z_]+=\S+ |[\w-]+ \| )*(?P<line>asymspec (?:.*\\\n)*.*)$", re.MULTILINE)
FENCE = re.compile(r"^```(?:sh)?\n(?P<code>.*?)^```|(?:^    .*\n)+", re.MULTILINE | re.DOTALL)


def _commands() -> Iterator[object]:
    """Each `asymspec …` of a block of commands; what stands in brackets or after an ellipsis is a remark."""
    for page in PAGES:
        for block in FENCE.finditer((ROOT / page).read_text("utf-8")):
            for match in COMMAND.finditer(block[0]):
                line = re.sub(r"\[.*?\]|…", "", match["line"].replace("\\\n", " "))
                words = shlex.split(line.partition("|")[0].rstrip("& "), comments=True)
                yield pytest.param(words[1:], id=f"{page}: {' '.join(words)[:60]}")


@pytest.mark.parametrize("words", [*_commands()])
def test_documented_commands_are_understood(words: list[str]) -> None:
    parsed = frame._parser(cli.COMMANDS, "asymspec", "").parse_args(words)
    if words[:2] == ["vllm", "serve"]:  # takes vLLM's own flags as well, which only vLLM can judge
        known, _ = vllm._serve_parser().parse_known_args(words[3:])
        assert known.drafter
    assert parsed.command in words


def test_documented_extras_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {
        extra.strip()
        for page in PAGES
        for names in re.findall(r"asymspec-agents\[([a-z, -]+)\]", (ROOT / page).read_text("utf-8"))
        for extra in names.split(",")
    }
    assert named
    assert named <= extras.keys()
