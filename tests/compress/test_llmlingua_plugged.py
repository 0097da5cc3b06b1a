"""LLMLingua2 where users put it: as AutoCompressor's prose compressor, in a router, in the command line."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.cli.compress_narrator import Narrator
from asymspec_agents.cli.main import main
from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.llmlingua import LLMLingua2, runner
from asymspec_agents.compress.llmlingua.checkpoint import TokenModel
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy

WAIT_S = 20.0
ROWS = json.dumps([{"id": number, "name": f"user {number}"} for number in range(300)])
SENTENCES = "\n\n".join(
    f"The old ledgers of the harbour office were sold by the museum {place}, although nobody asked."
    for place in ("at the gate", "in the archive", "near the river", "on the coast", "before the storm")
)


def conversation(result: str) -> list[dict[str, Any]]:
    called = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "user", "content": "What was sold?"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": result},
    ]


def test_the_router_gives_it_prose_and_nothing_else(runners: dict[str, LLMLingua2]) -> None:
    router = ContextRouter(compressor=AutoCompressor(prose=runners["bert"]))
    (prose,) = router.route(conversation(SENTENCES * 20)).report.changes
    (rows,) = router.route(conversation(ROWS)).report.changes
    assert (prose.compressor, prose.degraded) == ("llmlingua2", False)
    assert (rows.compressor, rows.degraded) == ("json", False)


def test_its_identity_is_part_of_the_auto_compressors(runners: dict[str, LLMLingua2]) -> None:
    kinds = [AutoCompressor(prose=compressor).configuration for compressor in runners.values()]
    assert len({AutoCompressor().configuration, *kinds}) == len(runners) + 1
    assert runners["bert"].configuration in AutoCompressor(prose=runners["bert"]).configuration


def test_the_event_loop_turns_while_the_model_runs(
    checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, threads = threading.Event(), threading.Event(), set()
    original = TokenModel.probabilities

    def held(self: TokenModel, sequences: Any) -> Any:
        threads.add(threading.current_thread().name)
        begun.set()
        assert go.wait(WAIT_S)
        return original(self, sequences)

    monkeypatch.setattr(TokenModel, "probabilities", held)
    router = ContextRouter(compressor=AutoCompressor(prose=LLMLingua2.load(checkpoints["bert"])))

    async def run() -> list[int]:
        calls = [asyncio.create_task(router.aroute(conversation(SENTENCES * n))) for n in (20, 25, 30)]
        while not begun.is_set():
            await asyncio.sleep(0.001)
        go.set()
        return [(await call).report.num_degraded for call in calls]

    assert asyncio.run(run()) == [0, 0, 0]
    assert threads == {"asymspec-llmlingua"}


def test_too_slow_a_model_degrades_the_view(checkpoints: dict[str, Path]) -> None:
    slow = LLMLingua2.load(checkpoints["bert"], timeout_s=1e-6)
    routed = ContextRouter(compressor=AutoCompressor(prose=slow)).route(conversation(SENTENCES * 20))
    assert routed.report.num_degraded == 1
    assert routed.report.changes[0].compressor == "headtail"


def test_a_policys_time_is_enough_to_cut_it_off(
    checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def hang(self: TokenModel, sequences: Any) -> Any:
        go.wait(WAIT_S)
        raise MemoryError

    monkeypatch.setattr(TokenModel, "probabilities", hang)
    prose = LLMLingua2.load(checkpoints["bert"], timeout_s=None)
    policy = ViewPolicy(compress_timeout_s=0.05)
    routed = ContextRouter(policy, compressor=AutoCompressor(prose=prose)).route(conversation(SENTENCES * 20))
    go.set()
    assert routed.report.num_degraded == 1


@pytest.fixture
def prose_file(tmp_path: Path) -> str:
    path = tmp_path / "prose.txt"
    path.write_text(SENTENCES * 20, "utf-8")
    return str(path)


def test_the_command_line_takes_a_checkpoint(
    prose_file: str, checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--compressor", "llmlingua", "--compressor-model", str(checkpoints["bert"])]
    assert main(["compress", prose_file, *options, "--diff", "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["kind"], result["compressor"]) == ("text", "llmlingua2")
    assert 0 < result["tokens_after"] <= result["target_tokens"]
    assert "".join(text for fate, text in result["diff"] if fate != "added") == SENTENCES * 20
    assert printed.err.startswith("text by llmlingua2: ")
    (tmp_path / "rows.json").write_text(ROWS)
    assert main(["compress", str(tmp_path / "rows.json"), *options]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"id": 0, "name": "user 0"}
    as_text = ["compress", str(tmp_path / "rows.json"), *options, "--kind", "text"]
    assert main([*as_text, "--ratio", "0.95"]) == 0
    assert "text by llmlingua2" in capsys.readouterr().err
    assert main([*as_text, "--ratio", "0.05"]) == 0
    assert "note: protected spans" in capsys.readouterr().err


def test_the_command_line_takes_it_for_conversations(
    checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat.json").write_text(json.dumps({"messages": conversation(SENTENCES * 20)}))
    options = ["--compressor", "llmlingua", "--compressor-model", str(checkpoints["bert"])]
    assert main(["compress", str(tmp_path / "chat.json"), *options]) == 0
    assert "llmlingua2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compressor", "llmlingua"], "--compressor-model NAME"),
        (["--compressor", "llmlingua", "--model", "x"], "--model says whose tokens are counted"),
        (["--compressor-model", "x"], "--compressor llmlingua"),
        (["--compressor", "llmlingua", "--compressor-model", "no-such-folder"], "no-such-folder"),
    ],
)
def test_wrong_options_are_explained(
    prose_file: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compress", prose_file, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is(
    prose_file: str,
    checkpoints: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "PROGRESS_S", 0.0)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    options = ["--compressor", "llmlingua", "--compressor-model", str(checkpoints["bert"])]
    assert main(["compress", prose_file, *options]) == 0
    assert "chunks" in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("estimate/1)")
    assert "chunks" not in capsys.readouterr().out


def test_nothing_but_a_terminal_shows_it() -> None:
    stream = io.StringIO()
    bar = Narrator(stream)
    bar.record("compress_progress", num_done=1, num_chunks=3)
    bar.close()
    assert stream.getvalue() == ""


def test_the_bar_goes_with_the_work() -> None:
    stream = _Terminal()
    bar = Narrator(stream)
    bar.record("compress", reason="timeout")
    assert stream.getvalue() == ""
    for num_done in (1, 2, 3):
        bar.record("compress_progress", num_done=num_done, num_chunks=3)
    written = stream.getvalue()
    bar.close()
    assert stream.getvalue() == written
