"""The command over made-up suites and a made-up system, in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import evals.systems
from evals import judging
from evals.cli.main import main
from evals.records import Record
from evals.run_folder import read_run
from evals.suites import SUITES
from tests.evals import made_up

__all__ = ["Command", "MadeJudge", "Told"]


class MadeJudge:
    """Says YES to everything, until told otherwise."""

    def __init__(self, name: str = "judge", reply: str = "YES") -> None:
        self.name = name
        self.reply = reply
        self.is_closed = False

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        return self.reply

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Told:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Command:
    """Runs command lines; `opened` are the options of every system that was opened."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "evals.suites.made_up", made_up)
        monkeypatch.setitem(SUITES, "made_up", "made_up:MadeUp")
        monkeypatch.setitem(SUITES, "made_up_judged", "made_up:MadeUpJudged")
        monkeypatch.setattr(evals.systems, "open_system", self._open)
        monkeypatch.setattr(judging, "open_judge", lambda options, folder: self._open_judge(options))
        self._capsys = capsys
        self.folder = folder
        self.system = made_up.MadeSystem()
        self.judge = MadeJudge()
        self.opened: list[Any] = []
        self.judges: list[Any] = []

    def _open(self, options: Any) -> made_up.MadeSystem:
        self.opened.append(options)
        return self.system

    def _open_judge(self, options: Any) -> MadeJudge:
        self.judges.append(options)
        return self.judge

    def __call__(self, *argv: str) -> Told:
        """Runs a command line; usage errors count as their exit code."""
        try:
            code = main(argv)
        except SystemExit as error:
            code = int(error.code or 0)
        captured = self._capsys.readouterr()
        return Told(code, captured.out, captured.err)

    def run(self, *argv: str, suites: Sequence[str] = ("made_up",)) -> Told:
        """`run` into the folder."""
        return self("run", *suites, "--out", str(self.folder), *argv)

    @property
    def records(self) -> dict[tuple[str, str], Record]:
        """What the folder holds, by sample and cell."""
        return {(record.sample, record.cell): record for record in read_run(self.folder).records()}
