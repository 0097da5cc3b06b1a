"""MultiChallenge's verdicts and its mean over the axes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers.multi_challenge import Verdict, axis_means, read_verdict

GOLDEN: list[tuple[str, Verdict | None]] = [
    ('{"reasoning": "It does.", "verdict": "YES"}', "YES"),
    ('{"verdict": "no", "reasoning": ""}', "NO"),
    ('```json\n{"reasoning": "a {brace}", "verdict": "NO"}\n```', "NO"),
    ('Sure:\n{"reasoning": "line\nbreak", "verdict": "YES"}\nDone.', "YES"),
    ('{"verdict": "YES"} {"verdict": "NO"}', "NO"),  # the last decides
    ('{"outer": {"verdict": "YES"}}', None),  # not the reply's own
    ('{"verdict": "MAYBE"}', None),
    ('{"verdict": true}', None),
    ('{"verdict": null}\nYES', None),
    ('{"reasoning": "cut off, YES', None),
    ("It keeps to the limit.\n\nYES", "YES"),
    ("It fails.\nVerdict: NO.", "NO"),
    ("**YES**", "YES"),
    ("Verdict: **NO**", "NO"),
    ('"yes"', "YES"),
    ("YES, because it does", None),  # a sentence is no verdict
    ("The answer is YES", None),
    ("NO\nThat is my verdict.", None),
    ("NOT YES", None),
    ("YESNO", None),
    ("KNOW", None),
    ("", None),
    ("  \n ", None),
    ("{" * 3_000, None),
]


@pytest.mark.parametrize(("reply", "verdict"), GOLDEN)
def test_golden(reply: str, verdict: Verdict | None) -> None:
    assert read_verdict(reply) == verdict


@given(
    st.text(max_size=60),
    st.sampled_from(["YES", "NO"]),
    st.text(st.characters(exclude_characters="{"), max_size=20),
)
def test_an_object_is_read_whatever_its_reasoning_says(reasoning: str, verdict: Verdict, around: str) -> None:
    reply = json.dumps({"reasoning": reasoning, "verdict": verdict})
    assert read_verdict(around + reply + around) == verdict


def test_each_axis_counts_the_same() -> None:
    means = axis_means([("B", 1.0), ("A", 1.0), ("A", 0.0), ("A", 0.0), ("B", 1.0)])
    assert means == {"A": pytest.approx(1 / 3), "B": 1.0}
    assert list(means) == ["A", "B"]
    assert axis_means([]) == {}
