"""Writes a run's report: Markdown, a page, and every number as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

from asymspec_agents.errors import ConfigurationError

from ..run_folder import read_run
from .analysis import analyse, indexed_suites
from .markdown import markdown_report
from .page import html_report
from .summary import summary

__all__ = ["write_report"]


def write_report(folder: Path, output: Path) -> None:
    """Writes `report.md`, `report.html` and `summary.json` of the run in `folder` into `output`.

    All numbers are computed anew from the records. Raises ConfigurationError where `folder` holds no run, or
    no record yet.
    """
    run = read_run(folder)
    indexed = indexed_suites(run)
    if not indexed:
        raise ConfigurationError(f"{folder} has no records yet; run it first")
    suites = [(data, analyse(data, is_rescoring=data.name in run.plan.rescoring)) for data in indexed]
    results = [result for _, result in suites]
    output.mkdir(parents=True, exist_ok=True)
    numbers = json.dumps(summary(run.plan, results), indent=1, ensure_ascii=False, allow_nan=False)
    _write(output / "summary.json", numbers + "\n")
    _write(output / "report.md", markdown_report(run.plan, results))
    _write(output / "report.html", html_report(run, suites))


def _write(path: Path, text: str) -> None:
    """In place of the file before, whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    os.replace(new, path)
