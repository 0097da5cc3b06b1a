"""A long string within JSON is shortened as the text it is, with the query."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.json_content import JsonContent
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
FILLER = [f"The server of batch {i} has cached its shard and waits for orders." for i in range(2000)]
PAGE = " ".join([*FILLER[:1200], "The capital of Freedonia is Zubrowka City.", *FILLER[1200:]])
BUILD = [f"[{i}/3000] Building CXX object src/target_{i * 31 % 997}.o" for i in range(3000)]


def shown(value: object, query: str, share: float = 0.1) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    target = int(COUNTER.count(text) * share)
    made = AutoCompressor().compress(text, query=query, target_tokens=target, counter=COUNTER)
    assert made.compressor == "json"
    assert COUNTER.count(made.text) <= target
    return json.loads(made.text)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_a_fetched_page_shows_the_sentence_asked_about(share: float) -> None:
    value = shown({"title": "T", "body": PAGE, "url": "https://a.b/c"}, "the capital of Freedonia?", share)
    assert "Zubrowka City" in value["body"]
    assert (value["title"], value["url"]) == ("T", "https://a.b/c")
    assert "sha256:" not in value["body"]  # a reference to a part would lead nowhere


def test_a_search_result_shows_it_too() -> None:
    results = [{"rank": i, "snippet": " ".join(FILLER[i * 40 : i * 40 + 40])} for i in range(30)]
    results[17]["snippet"] = PAGE
    found = json.dumps(shown({"results": results}, "What is the capital of Freedonia?"))
    assert "Zubrowka City" in found


def test_a_commands_output_shows_its_error_without_a_query() -> None:
    lines = [*BUILD[:2000], "src/a.c:10:5: error: 'foo' undeclared", *BUILD[2000:]]
    value = shown({"returncode": 2, "stdout": "\n".join(lines)}, "")
    assert "'foo' undeclared" in value["stdout"]


def test_json_within_json_is_shortened_as_json() -> None:
    rows = [{"id": i, "m": f"msg {i}"} for i in range(2000)]
    value = shown({"content": json.dumps(rows)}, "What of msg 777?")
    assert {"id": 777, "m": "msg 777"} in json.loads(value["content"])


def test_without_a_compressor_for_strings_they_lose_their_middle() -> None:
    text = json.dumps({"body": PAGE})
    made = JsonContent().compress(text, query="capital of Freedonia", target_tokens=500, counter=COUNTER)
    assert " characters …] " in json.loads(made.text)["body"]
