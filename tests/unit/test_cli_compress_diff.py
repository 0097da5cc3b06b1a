"""`asymspec compress`: differences, conversations, encodings, and what is refused."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.cli.compress_diff import diff, rendered
from asymspec_agents.cli.main import main
from tests.routing import agent_run

PROSE = "".join(f"Sentence {number} tells of trains. It is a long one, too.\n" for number in range(60))


@pytest.fixture
def prose(tmp_path: Path) -> str:
    path = tmp_path / "prose.txt"
    path.write_text(PROSE, "utf-8")
    return str(path)


@pytest.fixture
def conversation(tmp_path: Path) -> str:
    tool = {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Finds trains. " * 30,
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string", "description": "x " * 99}},
            },
        },
    }
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps({"messages": agent_run(6), "tools": [tool]}), "utf-8")
    return str(path)


class Terminal:
    """Standard output as a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


pieces_of = st.lists(
    st.sampled_from(["one ", "two, ", "three.\n", "\n", "vier 列車 ", "\x1b[2J", "  "]), max_size=25
)


@given(pieces_of.map("".join), pieces_of.map("".join))
def test_the_pieces_are_both_texts(original: str, rendition: str) -> None:
    pieces = diff(original, rendition)
    assert "".join(piece.text for piece in pieces if piece.fate != "added") == original
    assert "".join(piece.text for piece in pieces if piece.fate != "dropped") == rendition
    assert all(one.fate != other.fate for one, other in pairwise(pieces))
    if original == rendition:
        assert {piece.fate for piece in pieces} <= {"kept"}


def test_what_was_kept_is_found_in_lines_and_inside_them() -> None:
    original = "The train leaves at ten. It is late today. Nobody knows why!\nA second line.\n"
    pieces = diff(original, "[…] It is late today. […]\nA second line.\n")
    assert [piece.text for piece in pieces if piece.fate == "kept"] == [
        "It is late today. ",
        "A second line.\n",
    ]
    assert rendered(pieces, colour=False).startswith(
        "{+[…] +}[-The train leaves at ten. -]It is late today. "
    )


def test_a_huge_line_against_pieces_of_it_takes_no_quadratic_time() -> None:
    original = "abc def ghi, " * 100_000
    rendition = "".join(original[at : at + 40] for at in range(0, len(original), 400))
    pieces = diff(original, rendition)
    assert "".join(piece.text for piece in pieces if piece.fate != "dropped") == rendition


def test_a_difference_in_a_pipe_has_marks_and_no_colour(
    prose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compress", prose, "--diff", "--compressor", "headtail"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[-" in shown
    assert "{+[… " in shown
    assert shown.startswith("Sentence 0 tells of trains.")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colour_unless_told_otherwise(
    prose: str, no_color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["compress", prose, "--diff"]) == 0
    assert ("\x1b[31;9m" in terminal.text) == (not no_color)
    assert ("[-" in terminal.text) == bool(no_color)


def test_content_cannot_drive_the_terminal() -> None:
    assert rendered(diff("a \x1b[2J b\r\n", "a \x1b[2J b\r\n"), colour=True) == "a \ufffd[2J b\n"


def test_a_difference_as_json(prose: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", prose, "--json", "--diff"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "".join(text for fate, text in result["diff"] if fate != "added") == PROSE
    assert "".join(text for fate, text in result["diff"] if fate != "dropped") == result["text"]


def test_a_conversation_is_routed_and_each_message_told_of(
    conversation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = ["--max-verifier-tokens", "2000", "--keep-last", "1"]
    assert main(["compress", conversation, *budget, "--json", "--diff"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tokens_after"] <= 2_000 < result["tokens_before"]
    tiers = [part["tier"] for part in result["parts"]]
    assert tiers[:2] == ["verbatim", "verbatim"]
    assert tiers[-1] == "verbatim"
    assert {"marker", "compressed"} & set(tiers)
    assert all(part["tokens_after"] <= part["tokens_before"] for part in result["parts"])
    assert len(result["messages"]) == len(agent_run(6))
    assert "description" not in json.dumps(result["tools"])
    assert result["diff"][0]["message"] == 3
    assert main(["compress", conversation, *budget, "--diff"]) == 0
    printed = capsys.readouterr()
    assert "--- 3 tool ---\n" in printed.out
    assert "[-" in printed.out
    assert "verbatim" in printed.err
    assert f"{result['tokens_before']:,} -> {result['tokens_after']:,} tokens by estimate" in printed.err


@pytest.mark.parametrize(
    ("encoding", "is_marked"),
    [("utf-8-sig", True), ("utf-16", True), ("utf-32", True), ("utf-16-le", False), ("utf-8", True)],
)
def test_byte_order_marks_tell_the_encoding(
    encoding: str, is_marked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text"
    path.write_bytes("Zug nach Köln 列車\n".encode(encoding))
    code = main(["compress", str(path), "--ratio", "1"])
    printed = capsys.readouterr()
    if is_marked:
        assert (code, printed.out) == (0, "Zug nach Köln 列車\n")
    else:
        assert (code, printed.out) == (2, "")
        assert "is binary" in printed.err


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x00\x00", bytes(range(1, 32)) * 9])
def test_binary_files_are_refused(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program"
    path.write_bytes(data)
    assert main(["compress", str(path)]) == 2
    assert f"{path} is binary, not text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--max-verifier-tokens", "9"], "--max-verifier-tokens is a conversation's"),
        (["--keep-last", "1"], "--keep-last is a conversation's"),
        (["--compressor", "llmlingua"], "--compressor-model NAME (its checkpoint) go together"),
        (["--compressor-model", "x"], "--compressor-model NAME (its checkpoint) go together"),
    ],
)
def test_options_that_do_not_fit_a_text_are_refused(
    argv: list[str], error: str, prose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compress", prose, *argv]) == 2
    assert error in capsys.readouterr().err


def test_what_does_not_fit_a_conversation_is_refused(
    conversation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compress", conversation, "--query", "x"]) == 2
    assert "--query is a text's" in capsys.readouterr().err
    assert main(["compress", conversation, "--query", "x", "--kind", "json"]) == 0
    assert main(["compress", conversation, "--max-verifier-tokens", "3"]) == 2
    assert "over the limit of 3" in capsys.readouterr().err


def test_counts_by_a_models_own_template(
    conversation: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    from tests.engine.tiny_folder import save_pair

    model = ["--model", str(save_pair(tmp_path)[0]), "--max-verifier-tokens", "9000"]
    assert main(["compress", conversation, *model, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["is_exact"]
    assert result["counter"].startswith("tokenizer/")
    assert result["tokens_after"] <= 9_000
