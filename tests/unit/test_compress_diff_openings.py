"""Diffs that begin with a commit, a list of files, or have no hunks at all."""

from __future__ import annotations

import pytest

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()


def files(num: int) -> str:
    return "".join(
        f"diff --git a/f{i}.c b/f{i}.c\n--- a/f{i}.c\n+++ b/f{i}.c\n@@ -1 +1 @@\n-old{i}\n+new{i}\n"
        for i in range(num)
    )


def shown(text: str, query: str) -> str:
    target = COUNTER.count(text) // 10
    made = AutoCompressor().compress(text, query=query, target_tokens=target, counter=COUNTER)
    assert made.kind == made.compressor == "diff"
    assert COUNTER.count(made.text) <= target
    return made.text


@pytest.mark.parametrize("num_listed", [0, 30, 100, 400])
def test_a_commit_with_its_list_of_files_shows_the_file_asked_about(num_listed: int) -> None:
    listed = "".join(f" f{i}.c | 2 +-\n" for i in range(num_listed))
    text = f"commit 0a1b2c3d4e\nAuthor: A\nDate:   today\n\n    Why it was done\n\n{listed}{files(300)}"
    rendition = shown(text, "What changed in f250.c?")
    assert "+new250" in rendition
    assert rendition.startswith("commit 0a1b2c3d4e\nAuthor: A\n")
    assert "Why it was done" in rendition


def test_renames_alone_are_files_of_their_own() -> None:
    text = "".join(
        f"diff --git a/o{i} b/n{i}\nsimilarity index 100%\nrename from o{i}\nrename to n{i}\n"
        for i in range(500)
    )
    assert "rename from o250\nrename to n250" in shown(text, "What is n250?")


def test_commits_of_a_history_are_kept_with_their_first_file() -> None:
    text = "".join(
        f"commit 0a1b2{i:05}\nAuthor: A\n\n    message {i}\n\n{files(i + 1)[len(files(i)) :]}\n"
        for i in range(200)
    )
    rendition = shown(text, "What changed in f150.c?")
    assert "+new150" in rendition
    assert "    message 150\n" in rendition


def test_a_removed_line_that_looks_like_a_commit_or_a_file_stays_in_its_hunk() -> None:
    hunk = "@@ -1,3 +1,2 @@\n--- a signature\n-commit 0a1b2c3d4e\n context\n+new line\n"
    text = "--- a/x\n+++ b/x\n" + hunk + files(200)
    assert "--- a signature\n-commit 0a1b2c3d4e\n" in shown(text, "signature")
