"""Text that is nearly JSON keeps the row asked about, becomes JSON, and says what was wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.json_broken import mend
from asymspec_agents.compress.json_tree import write
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
ROWS = [{"id": i, "m": f"msg {i}"} for i in range(1000)]


def shown(text: str, query: str) -> str:
    target = COUNTER.count(text) // 10
    made = AutoCompressor().compress(text, query=query, target_tokens=target, counter=COUNTER)
    assert made.kind == made.compressor
    assert made.kind in ("json", "json_lines")
    assert COUNTER.count(made.text) <= target
    for line in made.text.split("\n") if made.kind == "json_lines" else [made.text]:
        json.loads(line)
    return made.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(ROWS)[:-30], "not valid JSON: it breaks off at its end"),
        (json.dumps({"status": "ok", "data": {"rows": ROWS}})[:-40], "not valid JSON: it breaks off"),
        (json.dumps(ROWS, indent=2)[:-40], "not valid JSON: it breaks off"),
        (json.dumps(ROWS).replace('"msg 500"', '"say "msg" 500"'), "not valid JSON: broken at character"),
        (json.dumps(ROWS).replace('"msg 500"', ""), "not valid JSON: broken at character"),
        (json.dumps(ROWS) + "\nDone in 5 s", "not valid JSON: broken at character"),
        ("\n".join(json.dumps(row, indent=1) for row in ROWS), "several JSON values"),
        (repr(ROWS), "a Python literal"),
        (repr({row["m"]: row for row in ROWS}), "a Python literal"),
        (repr([tuple(row.values()) for row in ROWS]), "a Python literal"),
        (repr(ROWS).replace("'id': 5,", "'id': datetime(2026, 1, 1),"), "a Python literal"),
    ],
)
def test_nearly_json_shows_the_row_asked_about(text: str, says: str) -> None:
    rendition = shown(text, "What of msg 777?")
    assert '"msg 777"' in rendition
    assert says in rendition
    assert "left out; sha256:" in rendition


def test_json_lines_with_broken_ones_show_these_and_the_row_asked_about() -> None:
    lines = [json.dumps(row) for row in ROWS]
    lines[3] = '{"id": 3, "m": "bro'
    lines[500] = "a line of text"
    rendition = shown("\n".join(lines), "What of msg 777?")
    assert '"msg 777"' in rendition
    assert "not valid JSON: a line of text" in rendition
    assert json.dumps(lines[3])[1:-1] in rendition
    assert "2 lines are not valid JSON" in rendition


def test_a_text_cut_within_a_string_keeps_it_under_its_key() -> None:
    value: Any = json.loads(write(mend('{"title": "A", "body": "line\\nand \\u00').value))
    assert value == {"title": "A", "body": "line\nand  … cut off here …"}


def test_what_can_not_be_read_is_kept_as_it_is() -> None:
    value: Any = json.loads(write(mend('[{"a": 1}, {"b" 2}, {"c": 3}]').value))
    assert value[0] == {"a": 1}
    assert value[-1] == {"c": 3}
    assert '"b" 2' in value[-2]


STRING, SCALAR = r'"(?:[^"\\]|\\.)*"', r'[^\[\]{},:\s"]+'
# Read whole or not at all: a string or another scalar, with its key if it has one; a key with nothing.
UNIT = re.compile(rf"{STRING}\s*:\s*(?:{STRING}|{SCALAR})?|{STRING}|{SCALAR}")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def test_a_text_that_breaks_in_its_only_element_is_refused() -> None:
    with pytest.raises(ValueError, match="next to nothing"):
        mend('["\\u001f\\u001f\\u"')


@given(value=st.lists(JSON_VALUES, min_size=1), data=st.data())
def test_any_cut_or_hole_is_read_without_loss_of_what_stands_before_it(value: list[Any], data: Any) -> None:
    whole = json.dumps(value)
    at = data.draw(st.integers(1, len(whole) - 1))
    insert = data.draw(st.sampled_from(["", '"', "]", "{", "x", ","]))
    broken = whole[:at] + insert + data.draw(st.sampled_from(["", whole[at:]]))
    num_whole = sum(len(json.dumps(value[: n + 1])) <= at for n in range(len(value)))
    try:
        read: Any = json.loads(write(mend(broken).value), parse_int=str)
    except ValueError:  # nearly all of it is, or comes behind, the unit in which it breaks
        inside = (unit.start() for unit in UNIT.finditer(whole) if unit.start() < at <= unit.end())
        assert next(inside, at) < 0.2 * len(broken)
        return
    assert isinstance(read, list | dict)
    if isinstance(read, list) and not broken.startswith(("[[", "[{", "[(")):
        assert len(read) >= min(num_whole, 1)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "[{'a':" * 50_000, '["' * 50_000, "[1,,,{" * 20_000]
)
def test_hostile_text_is_read_or_refused_in_little_time(text: str) -> None:
    made = AutoCompressor().compress_as("json", text, query="a", target_tokens=200, counter=COUNTER)
    assert COUNTER.count(made.text) <= 200
