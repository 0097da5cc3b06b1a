"""`asymspec trace`: answers in the terminal, pages in files, two traces compared, a trace followed."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from asymspec_agents.cli import main as cli
from asymspec_agents.cli import trace_follow
from asymspec_agents.cli.trace_follow import follow
from asymspec_agents.trace import JSONLRecorder
from asymspec_agents.trace.viewer import PageServer

Capture = pytest.CaptureFixture[str]


def record(recorder: JSONLRecorder, name: str, *, last: str = " disk", has_end: bool = True) -> None:
    """A call whose last token the full view changed."""
    tokens = {"verifier": 40, "base": 40, "drafter": 160}
    cached = {"verifier": 30, "drafter": 80}
    recorder.record(
        "view", request_id=name, full_tokens=160, compressed_tokens=40, elapsed_s=0.01, task_digest="t"
    )
    recorder.record("request", request_id=name, arm="asymspec", prompt_tokens=tokens, cached_tokens=cached)
    positions = [
        {"origin": "accepted", "is_argmax": True, "text": "The\x1b[31m", "token_id": 1},
        {"origin": "fused", "is_argmax": False, "text": last, "token_id": 2, "argmax": " re\nquest"},
    ]
    recorder.record(
        "block",
        request_id=name,
        index=0,
        num_drafted=3,
        num_accepted=1,
        num_fused=1,
        text=f"The{last}",
        token_ids=[1, len(last)],
        divergence=[0.1, 0.2],
        elapsed_s=0.5,
        positions=positions,
    )
    if has_end:
        recorder.record(
            "response",
            request_id=name,
            finish_reason="stop",
            num_tokens=2,
            elapsed_s=2.0,
            prefill_s=0.5,
            text=f"The{last}",
        )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    with JSONLRecorder(path, captures_content=True, level="detail") as recorder:
        record(recorder, "r1")
        record(recorder, "r2")
    return path


def test_show_tells_each_calls_story(run: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "show", str(run)]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "#1 asymspec · stop  compress 10 ms; prefill 500 ms; decode 1.50 s" in output
    lines = [line for line in output.splitlines() if line.strip().startswith(("full", "compressed"))]
    full, compressed = lines[0], lines[1]
    assert full.endswith("160, 80 computed")
    assert compressed.endswith("40, 10 computed")
    assert full.count("█") == full.count("░") == 15
    assert (compressed.count("█"), compressed.count("░")) == (2, 6)
    assert "The�[31m[ disk| re↵quest]" in output
    assert "changed by the full view: 1 of 2 tokens" in output


def test_show_marks_origins_by_colour_in_a_terminal(
    run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["trace", "show", str(run), "--call", "2"]) == 0
    output = capsys.readouterr().out
    assert "\x1b[33;4m\x1b[1m disk\x1b[0m\x1b[2m[ re↵quest]\x1b[0m" in output
    assert "\x1b[31m" not in output
    assert "#1" not in output


def test_show_gives_everything_as_json(run: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "show", str(run), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["requests"]
    assert (first["number"], second["number"]) == (1, 2)
    assert first["latency_s"] == {"compress": 0.01, "prefill": 0.5, "decode": 1.5}
    assert (first["full_view_tokens"], first["compressed_view_tokens"]) == (160, 40)
    assert (first["answer"], first["num_changed"]) == ("The disk", 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--call", "3"], "2 calls"),
        (["--follow", "--json"], "--follow"),
        (["--verifier-params", "1e9"], "together"),
    ],
)
def test_show_refuses_what_has_no_meaning(run: Path, capsys: Capture, options: list[str], said: str) -> None:
    assert cli.main(["trace", "show", str(run), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_trace_without_an_action_names_the_actions(run: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["trace", str(run)])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(action in said for action in ("show", "html", "view", "compare"))


def test_html_writes_one_page_that_needs_nothing_else(run: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "run.html"
    assert cli.main(["trace", "html", str(run), "-o", str(output)]) == 0
    assert "run.html" in capsys.readouterr().out
    page = output.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page
    for outside in ("http:", "https:", "src=", "@import", "url("):
        assert outside not in page.split('id="data">')[0]
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [call["answer"] for call in data["calls"]] == ["The disk", "The disk"]


def test_html_of_what_cannot_be_read_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "html", str(tmp_path / "missing"), "-o", str(tmp_path / "x.html")]) == 2
    assert "missing" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("has_browser", [True, False])
def test_view_serves_the_page_and_opens_a_browser(
    run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, has_browser: bool
) -> None:
    opened: list[str] = []
    pages: list[str] = []

    def wait(server: PageServer) -> None:
        pages.append(httpx.get(server.url).text)
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(PageServer, "wait", wait)
    assert cli.main(["trace", "view", str(run), *([] if has_browser else ["--no-browser"])]) == 130
    address = capsys.readouterr().out.split()[0]
    assert opened == ([address] if has_browser else [])
    assert "The disk" in pages[0]
    assert cli.main(["trace", "compare", str(run), str(run), "--view", "--no-browser"]) == 130
    assert '"pairs":[' in pages[1]


def test_compare_tells_where_answers_part(run: Path, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other.jsonl"
    with JSONLRecorder(other, captures_content=True) as recorder:
        record(recorder, "x1")
        record(recorder, "x2", last=" mail server")
    assert cli.main(["trace", "compare", str(run), str(run)]) == 0
    assert cli.main(["trace", "compare", str(run), str(other)]) == 1
    output = capsys.readouterr().out
    assert "turn 2 parts at character 5" in output
    assert "  B: The mail server" in output
    assert cli.main(["trace", "compare", str(run), str(other), "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["is_same"], second["is_same"]) == (True, False)
    assert (second["common_chars"], second["common_tokens"]) == (4, 1)
    page = tmp_path / "both.html"
    assert cli.main(["trace", "compare", str(run), str(other), "-o", str(page)]) == 0
    assert '"pairs":[' in page.read_text("utf-8")


def test_follow_prints_calls_as_they_end(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    num_sleeps = 0

    def sleep(seconds: float) -> None:
        nonlocal num_sleeps
        num_sleeps += 1
        if num_sleeps == 1:
            with JSONLRecorder(run, captures_content=True) as recorder:
                record(recorder, "r3")
        elif num_sleeps == 2:  # put aside, as a full file is
            run.rename(run.with_name("run.jsonl.1"))
            with JSONLRecorder(run) as recorder:
                record(recorder, "r4")
                record(recorder, "r5", has_end=False)

    monkeypatch.setattr("time.sleep", sleep)
    assert follow(str(run), max_polls=8) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"#{n} asymspec stop" for n in (1, 2, 3, 4)]
    assert "2 tokens, 1.0 tokens/s, 33% accepted" in lines[0]


def test_follow_shows_how_far_the_open_call_is(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    with JSONLRecorder(path) as recorder:
        record(recorder, "r1", has_end=False)
    path.write_bytes(path.read_bytes() + b'{"event":"blo')
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    follow(str(path), max_polls=2)
    assert "#1 asymspec …: 2 tokens, 4.0 tokens/s, 33% accepted" in capsys.readouterr().out


def _serve_arguments(*options: str) -> Any:
    import argparse

    from asymspec_agents.cli.trace_options import add_trace_options

    parser = argparse.ArgumentParser()
    add_trace_options(parser)
    return parser.parse_args(options)


def test_a_servers_trace_is_recorded_as_asked(tmp_path: Path) -> None:
    from asymspec_agents.cli.trace_options import trace_recorder
    from asymspec_agents.errors import ConfigurationError

    file = str(tmp_path / "t")
    assert trace_recorder(_serve_arguments()) is None
    assert trace_recorder(_serve_arguments("--trace", file, "--trace-level", "off")) is None
    plain = trace_recorder(_serve_arguments("--trace", file))
    assert plain is not None
    assert (plain.detail, plain.captures_content) == (None, False)
    plain.close()
    options = (
        "--trace-level",
        "detail",
        "--trace-alternatives",
        "2",
        "--trace-content",
        "--trace-max-mib",
        "1",
    )
    full = trace_recorder(_serve_arguments("--trace", file, *options))
    assert full is not None
    assert full.detail is not None
    assert (full.detail.num_alternatives, full.captures_content) == (2, True)
    assert full.limits.max_file_bytes == 1024**2
    full.close()
    for wrong in (
        ["--trace-content"],
        ["--trace-level", "detail"],
        ["--trace", file, "--trace-alternatives", "3"],
    ):
        with pytest.raises(ConfigurationError, match="--trace"):
            trace_recorder(_serve_arguments(*wrong))


def test_a_page_is_private_and_never_written_over_a_trace(run: Path, tmp_path: Path, capsys: Capture) -> None:
    page, held = tmp_path / "page.html", run.read_bytes()
    assert cli.main(["trace", "html", str(run), "-o", str(page)]) == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    link = tmp_path / "link.html"
    link.symlink_to(run)
    for output in (run, link):
        assert cli.main(["trace", "html", str(run), "-o", str(output)]) == 2
        assert cli.main(["trace", "compare", str(page), str(run), "-o", str(output)]) == 2
    assert "is a trace itself" in capsys.readouterr().err
    assert run.read_bytes() == held


@pytest.mark.parametrize("port", ["-1", "65536", "x", "²"])
def test_what_is_no_port_is_refused(run: Path, capsys: Capture, port: str) -> None:
    with pytest.raises(SystemExit):
        cli.main(["trace", "view", str(run), f"--port={port}"])
    assert "is no port" in capsys.readouterr().err


def test_times_that_are_no_numbers_are_left_out_of_json(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"event":"view","timestamp_s":1,"request_id":"r","elapsed_s":"NaN"}\n')
    assert cli.main(["trace", "show", str(path), "--json"]) == 0

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    data = json.loads(capsys.readouterr().out, parse_constant=refused)
    assert data["requests"][0]["latency_s"] == {}


def test_follow_reads_a_file_that_was_put_aside_to_its_end(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    line = '{{"event":"response","timestamp_s":1,"request_id":"{}","finish_reason":"stop","num_tokens":{}}}\n'
    path.write_text(line.format("a", 1))
    is_another = trace_follow._is_another

    def rotates(watched: Path, file: Any) -> bool:
        if not (tmp_path / "t.jsonl.1").exists():  # between the last look at the file and that at its name
            with path.open("a") as more:
                more.write(line.format("b", 2))
            path.rename(tmp_path / "t.jsonl.1")
            path.write_text(line.format("c", 3))
        return is_another(watched, file)

    monkeypatch.setattr(trace_follow, "_is_another", rotates)
    monkeypatch.setattr(trace_follow, "POLL_S", 0)
    assert follow(str(path), max_polls=8) == 0
    told = capsys.readouterr().out
    assert [f"{number} tokens" in told for number in (1, 2, 3)] == [True] * 3


def test_follow_begins_anew_where_a_file_was_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("x" * 100)
    with path.open("rb") as file:
        file.read()
        assert not trace_follow._is_another(path, file)
        path.write_text("y")
        assert trace_follow._is_another(path, file)
        path.unlink()
        assert not trace_follow._is_another(path, file)
