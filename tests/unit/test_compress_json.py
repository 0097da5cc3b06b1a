"""JSON stays valid and true: literals, order, duplicate keys, and a marker wherever something is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.compress.json_content import JsonContent, JsonLines
from asymspec_agents.compress.json_tree import parse, write
from asymspec_agents.compress.ranking import NoRanker
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
ROWS = [{"id": number, "name": f"user {number}", "score": 1.0, "bio": "words " * 20} for number in range(200)]


def shorten(text: str, target_tokens: int = 200, query: str = "") -> str:
    rendition = JsonContent().compress(text, query=query, target_tokens=target_tokens, counter=COUNTER)
    assert rendition.compressor == "json"
    assert COUNTER.count(rendition.text) <= target_tokens
    json.loads(rendition.text)
    return rendition.text


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1.0,"b":1E5,"c":-0.10,"d":12345678901234567890123,"e":1e400}',
        '{"a":1,"a":2,"z":[],"b":{}}',
        "[NaN,Infinity,-Infinity,true,false,null]",
        '"\\ud800 lone"',
        '["\\u0000\\n\\"\\\\"]',
    ],
)
def test_parsing_and_writing_changes_nothing(text: str) -> None:
    assert write(parse(text)) == text


def test_white_space_alone_is_dropped_without_a_marker() -> None:
    text = json.dumps(ROWS[:3], indent=8)
    compact = json.dumps(ROWS[:3], separators=(",", ":"))
    assert shorten(text, COUNTER.count(compact)) == compact


def test_literals_of_kept_rows_are_as_written() -> None:
    text = '{"total":1.50,"big":123456789012345678901234567890,"rows":[' + ",".join(["1.0"] * 3000) + "]}"
    shortened = shorten(text)
    assert shortened.startswith('{"total":1.50,"big":123456789012345678901234567890,"rows":[1.0,1.0,')


def test_every_left_out_row_is_accounted_for() -> None:
    text = json.dumps(ROWS)
    *entries, end = json.loads(shorten(text, 400))
    num_rows = sum(isinstance(entry, dict) for entry in entries)
    num_missing = sum(int(entry.split()[1].replace(",", "")) for entry in entries if isinstance(entry, str))
    assert num_rows >= 3
    assert num_rows + num_missing == len(ROWS)
    assert short_reference(text) in end


def test_first_last_and_matching_rows_are_kept() -> None:
    pytest.importorskip("bm25s")
    shortened = shorten(json.dumps(ROWS), 400, query="the score of user 137")
    kept = [entry["id"] for entry in json.loads(shortened) if isinstance(entry, dict)]
    assert {0, 137, 199} <= set(kept)
    assert kept == sorted(kept)


def test_left_out_keys_are_counted() -> None:
    text = json.dumps({f"key{number}": number for number in range(1000)})
    value = json.loads(shorten(text))
    num_more = int(value["…"].split()[0].replace(",", ""))
    assert value["…"].endswith("more keys")
    assert num_more + sum(key.startswith("key") for key in value) == 1000


def test_a_key_that_looks_like_a_marker_is_not_overwritten() -> None:
    text = json.dumps({"…": "mine", "text": "words " * 2000})
    value = json.loads(shorten(text))
    assert value["…"] == "mine"
    assert short_reference(text) in value["……"]


def test_duplicate_keys_stay() -> None:
    text = '{"a":1,"a":2,"text":"' + "words " * 2000 + '"}'
    assert shorten(text).startswith('{"a":1,"a":2,"text":"words')


def test_long_strings_lose_their_middle_and_say_so() -> None:
    value = json.loads(shorten(json.dumps({"text": "start " + "words " * 5000 + "end"})))
    assert value["text"].startswith("start words")
    assert value["text"].endswith("end")
    assert "characters …]" in value["text"]


@pytest.mark.parametrize(
    "value", ["words " * 3000, ["words " * 3000], [[["words " * 3000]]], {"a": {"b": ROWS}}]
)
def test_any_shape_is_shortened(value: Any) -> None:
    text = json.dumps(value)
    assert short_reference(text) in shorten(text)


def test_where_nothing_fits_the_marker_is_a_json_string() -> None:
    text = json.dumps(ROWS)
    rendition = JsonContent().compress(text, query="", target_tokens=5, counter=COUNTER)
    assert short_reference(text) in json.loads(rendition.text)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "[" * 50_000 + "]" * 50_000, "{'a': 1}" * 500, '{"a": ' * 3000]
)
def test_what_is_not_json_or_too_deep_gets_head_and_tail(text: str) -> None:
    rendition = JsonContent().compress(text, query="", target_tokens=100, counter=COUNTER)
    assert rendition.compressor == "headtail"
    assert not rendition.degraded
    assert short_reference(text) in rendition.text


def test_json_lines_stay_json_lines() -> None:
    text = "\n".join(map(json.dumps, ROWS)) + "\n"
    compressor = JsonLines(ranker=NoRanker())
    rendition = compressor.compress(text, query="user 5", target_tokens=400, counter=COUNTER)
    assert COUNTER.count(rendition.text) <= 400
    entries = [json.loads(line) for line in rendition.text.split("\n")]
    assert [entries[0], entries[-2]] == [ROWS[0], ROWS[-1]]
    assert short_reference(text) in entries[-1]
