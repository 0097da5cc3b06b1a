"""The whole command line over every suite's made records, a tiny random pair, and a judge from a script."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, ScriptedBackend
from asymspec_agents.decoding.modes import MODES
from evals import judging
from evals.cells import BASELINES, IDENTICAL
from evals.cli import asking
from evals.cli.main import main
from evals.records import Record
from evals.run_folder import read_run
from evals.sample import Sample
from evals.suite import Suite
from evals.suites import SUITES, suite_named
from tests.engine.tiny_folder import save_pair
from tests.evals.made_command import Told
from tests.evals.made_releases import write_cassette, write_releases

__all__ = ["ARMS", "NAMES", "Smoke", "open_smoke"]

ARMS = (*BASELINES, IDENTICAL, *MODES, "paper", "slack+context:slack=0.5")
SHORT_EPISODE = "max_step_tokens=8,max_steps=2"
MAX_TOKENS = 6
NAMES = tuple(f"{name}:{SHORT_EPISODE}" if "react" in name else name for name in sorted(SUITES))
"""Every suite; agents with short episodes."""


class Smoke:
    """Runs command lines over the data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        data = write_releases(folder / "releases")
        assert data.keys() == SUITES.keys()
        self.data = data
        tape = write_cassette(folder, ("web_search", {"query": "Mill"}, "A mill stands in Corrin."))
        verifier, drafter = save_pair(folder / "pair")
        for config in folder.glob("pair/*/config.json"):  # prompts of agents are long, at a token a byte
            config.write_text(
                json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 32_768})
            )
        self.models = ("--verifier", str(verifier), "--drafter", str(drafter), "--dtype", "float32")
        self.judged = ("--judge-url", "http://127.0.0.1:1")
        self.web = ("--option", f"cassette={tape}")

    def __call__(self, *argv: str) -> Told:
        """Runs a command line."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(argv)
        return Told(code, out.getvalue(), err.getvalue())

    def run(self, name: str, *argv: str, suites: Sequence[str] = NAMES) -> Told:
        """`run` of the suites into the folder of that name."""
        bare = [suite.partition(":")[0] for suite in suites]
        data = ("--data", *(f"{suite}={self.data[suite]}" for suite in bare)) if bare else ()
        web = self.web if any(suite in ("gaia_react", "simpleqa_react") for suite in bare) else ()
        out = ("--out", str(self.folder / name))
        return self("run", *suites, *out, *data, *web, *self.models, *self.judged, *argv)

    def records(self, name: str) -> dict[tuple[str, str, str], Record]:
        """What a run's folder holds; every record has an answer and a score."""
        found = {record.key: record for record in read_run(self.folder / name).records()}
        failures = {key: record.failure for key, record in found.items() if record.failure is not None}
        assert not failures
        assert all(record.output is not None and record.score is not None for record in found.values())
        return found


@contextlib.contextmanager
def open_smoke(folder: Path) -> Iterator[Smoke]:
    """Everything in place, with short answers and a judge that answers every kind of prompt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "open_judge", _open_judge)
        patch.setattr(asking, "suite_named", _short)
        yield Smoke(folder)


def _open_judge(options: Any, folder: Path) -> judging.CachedJudge:
    return judging.CachedJudge(ScriptedBackend(_reply, model="made judge"), folder / judging.FILE_NAME)


def _reply(request: ChatRequest) -> str:
    (text,) = request.messages[-1].texts()
    return '{"reasoning": "so", "verdict": "YES"}' if '"verdict"' in text else "B"


def _short(name: str) -> Suite:
    """The suite, whose samples ask for a few tokens."""
    suite = suite_named(name)
    load = suite.load

    def shortened(path: Path | None = None) -> tuple[Sample, ...]:
        return tuple(replace(sample, max_tokens=MAX_TOKENS) for sample in load(path))

    suite.load = shortened  # type: ignore[method-assign]
    return suite
