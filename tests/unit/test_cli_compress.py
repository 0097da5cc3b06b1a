"""`asymspec compress`: what goes to standard output and what to standard error."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import pytest

from asymspec_agents.cli import compress
from asymspec_agents.errors import MessageError
from asymspec_agents.tokens import EstimateCounter

ROWS = json.dumps([{"id": number, "name": f"user {number}"} for number in range(300)])


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    compress.add_parser(parser.add_subparsers())
    return compress.run(parser.parse_args(["compress", *argv]))


@pytest.fixture
def rows_file(tmp_path: Path) -> str:
    path = tmp_path / "rows.json"
    path.write_text(ROWS, "utf-8")
    return str(path)


def test_the_rendition_goes_to_stdout_and_sizes_to_stderr(
    rows_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(rows_file, "--target-tokens", "100") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0] == {"id": 0, "name": "user 0"}
    before, after = EstimateCounter().count(ROWS), EstimateCounter().count(printed.out.rstrip("\n"))
    assert printed.err.startswith(f"json by json: {before:,} -> {after:,} tokens (target 100")
    assert after <= 100


def test_ratio_query_and_json_output(rows_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s")
    assert run(rows_file, "--ratio", "0.05", "--query", "user 217", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert {"id": 217, "name": "user 217"} in json.loads(result["text"])
    assert result["target_tokens"] == int(result["tokens_before"] * 0.05) >= result["tokens_after"]
    assert (result["kind"], result["counter"]) == ("json", "estimate/1")


def test_stdin_and_a_given_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9 \xc3\xa9\n")))
    assert run("-", "--kind", "text", "--ratio", "1") == 0
    assert capsys.readouterr().out == "caf\ufffd é\n"


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"missing\.txt"):
        run(str(tmp_path / "missing.txt"))


@pytest.mark.parametrize(
    "argv",
    [
        ["--ratio", "0"],
        ["--ratio", "1.5"],
        ["--ratio", "nan"],
        ["--ratio", "abc"],
        ["--target-tokens", "-1"],
        ["--target-tokens", "1e3"],
        ["--max-verifier-tokens", "0"],
        ["--kind", "x"],
    ],
)
def test_options_out_of_range_are_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("-", *argv)
    message = capsys.readouterr().err
    assert argv[0] in message
    assert repr(argv[1]) in message
    assert "invalid _" not in message


def test_tools_that_are_no_list_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "x"}], "tools": "x"}), "utf-8")
    with pytest.raises(MessageError, match="tools: must be a list, not str"):
        run(str(path))
