"""The local search: passages as records hold them, and the same ranking every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.agents.passages import PassageIndex, passages_of

PASSAGES = (
    "Orla Finch\nOrla Finch is a painter from Harrowgate.",
    "Harrowgate\nHarrowgate is a town on the river Tamsin.",
    "Tamsin (river)\nThe Tamsin is a river that ends in Lake Odell.",
    "Lake Odell\nLake Odell lies in the north.",
)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("Passage 1:\nA\ntext of A\nPassage 2:\nB\ntext of B", ("A\ntext of A", "B\ntext of B")),
        ("Passage 1: \nA\nof Passage 2: x\n\nPassage 2:\nB", ("A\nof Passage 2: x", "B")),
        ("Passage 1:\n\nPassage 2:\nB", ("B",)),
        ("no headings at all", ("no headings at all",)),
        (" \n", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_contexts_are_read_as_passages(context: str, expected: tuple[str, ...]) -> None:
    assert passages_of(context) == expected


def test_the_best_passage_comes_first() -> None:
    index = PassageIndex(PASSAGES)
    assert index.search("Orla Finch painter", 3)[0] == PASSAGES[0]
    assert index.search("Where does the river Tamsin end?", 1) == (PASSAGES[2],)


@pytest.mark.parametrize("query", ["", "   ", "?!", "xylophone", "the of"])
def test_nothing_is_found_where_no_word_fits(query: str) -> None:
    assert PassageIndex(PASSAGES).search(query, 3) == ()
    assert PassageIndex(()).search(query, 3) == ()


def test_each_passage_is_found_once_and_ties_keep_their_order() -> None:
    index = PassageIndex(["b apple", "a apple", "b apple", "c apple"])
    assert index.search("apple", 10) == ("b apple", "a apple", "c apple")


@given(st.lists(st.text("ab c", max_size=8), max_size=8), st.text("ab c", max_size=8), st.integers(0, 9))
def test_a_search_is_a_function_of_its_arguments(passages: list[str], query: str, num: int) -> None:
    index = PassageIndex(passages)
    found = index.search(query, num)
    assert found == index.search(query, num) == PassageIndex(passages).search(query, num)
    assert len(found) == len(set(found)) <= num
    assert set(found) <= set(passages)


def test_other_processes_find_the_same() -> None:
    search = f"print(PassageIndex({PASSAGES!r}).search('river town lake', 4))"
    code = f"from evals.agents.passages import PassageIndex; {search}"
    root = Path(__file__).parents[2]
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(root)},  # this process has another seed
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.strip() == str(PassageIndex(PASSAGES).search("river town lake", 4))
