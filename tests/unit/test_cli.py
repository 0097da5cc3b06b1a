"""The command's frame (exit codes, errors, pipes) and `asymspec trace show`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents import __version__
from asymspec_agents.cli import main as cli
from asymspec_agents.errors import AsymSpecError, MissingDependencyError
from asymspec_agents.trace import JSONLRecorder
from tests.architecture import ROOT


class FakeCommand:
    """A subcommand whose run is a given function."""

    def __init__(self, action: Callable[[], int]) -> None:
        self.action = action

    def add_parser(self, subparsers: Any) -> None:
        subparsers.add_parser("fake")

    def run(self, args: argparse.Namespace) -> int:
        return self.action()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(action: Callable[[], int], *argv: str) -> int:
        monkeypatch.setattr(cli, "COMMANDS", {"fake": FakeCommand(action)})
        return cli.main(argv or ["fake"])

    return run


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


def test_a_command_decides_the_exit_code(run: Callable[..., int]) -> None:
    assert run(lambda: 0) == 0
    assert run(lambda: 7) == 7


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AsymSpecError("no such preset"), "error: no such preset\n"),
        (AsymSpecError(), "error: AsymSpecError\n"),
        (
            MissingDependencyError("torch", "engine"),
            'error: torch is not installed; run: pip install "asymspec-agents[engine]"\n',
        ),
        (
            FileNotFoundError(2, "No such file or directory", "a.jsonl"),
            "error: a.jsonl: No such file or directory\n",
        ),
        (OSError(28, "No space left on device"), "error: No space left on device\n"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], error: Exception, text: str
) -> None:
    assert run(raising(error)) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", text)


@pytest.mark.parametrize("argv", [("--debug", "fake"), ("fake", "--debug")])
def test_debug_shows_the_traceback(run: Callable[..., int], argv: tuple[str, ...]) -> None:
    with pytest.raises(AsymSpecError, match="inner"):
        run(raising(AsymSpecError("inner")), *argv)


def test_a_bug_is_never_hidden(run: Callable[..., int]) -> None:
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


def test_ctrl_c_and_a_closed_pipe_are_quiet(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(KeyboardInterrupt())) == 130
    assert run(raising(BrokenPipeError())) == 141
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argv", "code"), [([], 2), (["nonsense"], 2), (["--help"], 0), (["trace", "--help"], 0)]
)
def test_usage(argv: list[str], code: int) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(argv)
    assert exit_.value.code == code


def _asymspec(*argv: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, **options.pop("env", {})}
    command = [sys.executable, "-m", "asymspec_agents", *argv]
    return subprocess.run(command, capture_output=True, timeout=60, env=environment, check=False, **options)


def test_it_runs_as_a_module() -> None:
    result = _asymspec("--version")
    assert (result.returncode, result.stdout.decode().strip()) == (0, f"asymspec {__version__}")


def test_every_command_has_help() -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as exit_:
            cli.main([name, "--help"])
        assert exit_.value.code == 0


def _record_run(path: Path) -> Path:
    with JSONLRecorder(path, clock=lambda: 1.0) as recorder:
        recorder.record("view", full_tokens=4000, compressed_tokens=900)
        tokens = {"verifier": 900, "base": 900, "drafter": 4000}
        cached = {"verifier": 100}
        recorder.record(
            "request", request_id="0123456789", arm="asymspec", prompt_tokens=tokens, cached_tokens=cached
        )
        recorder.record("block", request_id="0123456789", index=0, num_drafted=3, num_accepted=2, num_fused=1)
        recorder.record(
            "response", request_id="0123456789", finish_reason="stop", num_tokens=3, elapsed_s=1.5
        )
        recorder.record("error", request_id="\x1b[31mred\ud800", error_type="BackendError")
    return path


def test_trace_prints_requests_and_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "show", str(_record_run(tmp_path / "t.jsonl"))]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    head, rule, first, second, _, total, routing = output.out.splitlines()
    assert head.split()[:2] == ["request", "arm"]
    assert set(rule) == {"-", " "}
    assert first.split()[:6] == ["01234567", "asymspec", "stop", "900", "(100", "cached)"]
    assert "67%" in first
    assert "\x1b" not in second
    assert "BackendError" in second
    assert total.startswith("total     requests: 1")
    assert "4,000 tokens to 900" in routing


def test_trace_costs_flops_where_both_sizes_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(_record_run(tmp_path / "t.jsonl"))
    assert (
        cli.main(["trace", "show", path, "--verifier-params", "1e9", "--drafter-params", "1e8", "--json"])
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    assert data["flops"]["prefill"] == 2 * (10**9 * 800 + 10**8 * (4000 + 900))
    assert data["flops"]["prefill_ratio"] == pytest.approx((800 + 490) / 4000)
    assert data["total"]["num_accepted"] == 2
    assert [request["ending"] for request in data["requests"]] == ["stop", "BackendError"]
    assert cli.main(["trace", "show", path, "--verifier-params", "1e9", "--drafter-params", "1e8"]) == 0
    assert "0.32× Ceiling's" in capsys.readouterr().out
    assert cli.main(["trace", "show", path, "--verifier-params", "1e9"]) == 2
    assert "together" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["trace", "show", path, "--verifier-params", "many"])


def test_trace_says_what_it_could_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("not a trace\n")
    assert cli.main(["trace", "show", str(path)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"note: line 1 is left out: not JSON\n{path} holds no events\n"
    assert cli.main(["trace", "show", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'missing'}: No such file or directory\n"


def test_trace_survives_a_closed_pipe_and_a_narrow_encoding(tmp_path: Path) -> None:
    path = str(_record_run(tmp_path / "t.jsonl"))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        closed = subprocess.run(
            [sys.executable, "-m", "asymspec_agents", "trace", "show", path],
            cwd=ROOT,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert (closed.returncode, closed.stderr) == (141, b"")
    ascii_only = _asymspec("trace", "show", path, env={"PYTHONIOENCODING": "ascii"})
    assert ascii_only.returncode == 0
    assert b"\\ufffd" in ascii_only.stdout


class Terminal:
    """Standard output that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_terminal_gets_the_same_rows_drawn_by_rich(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    path = str(_record_run(tmp_path / "t.jsonl"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    assert cli.main(["trace", "show", path]) == 0
    assert "01234567" in terminal.text
    assert "─" in terminal.text
    assert "\x1b[31m" not in terminal.text
    monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal.text = ""
    assert cli.main(["trace", "show", path]) == 0
    assert "01234567" in terminal.text
    assert "─" not in terminal.text
