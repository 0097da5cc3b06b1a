"""The documentation's Python blocks run as they stand, each on its own.

A block that needs more than the base says so in a comment on the line before its fence:
`<!-- needs: engine -->` puts it in the full tier, `<!-- needs: smolagents -->` skips it where that extra is
not installed; several extras are separated by commas.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture import ROOT

PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/gateway.md",
    "docs/operations.md",
    "docs/traces.md",
    "docs/views.md",
)
BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[a-z, ]+) -->\n+)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL
)
PROBE = {
    "engine": "torch",
    "compress": "bm25s",
    "documents": "pypdfium2",
    "gateway": "starlette",
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
