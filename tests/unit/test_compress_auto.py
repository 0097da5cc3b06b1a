"""Kinds told apart, the right compressor for each, and how the parts without the extra behave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, get_args

import pytest

from asymspec_agents.compress import AutoCompressor, ContentKind, HeadTail, detect_kind
from asymspec_agents.compress.extractive import Extractive
from asymspec_agents.compress.ranking import Bm25Ranker, NoRanker, default_ranker
from asymspec_agents.errors import MissingDependencyError
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
PROSE = "It was a long day, and nobody knew what to do. They waited; it rained.\n\n" * 40
SAMPLES: list[tuple[str, ContentKind]] = [
    (PROSE, "text"),
    ("", "text"),
    ("\n \n", "text"),
    ("city,population\n" + "Rome,2800000\n" * 20, "table"),
    ("name;size\n" + "a file;4 MB\n" * 20, "table"),
    ("First, they left\n" * 20, "text"),
    ("They left,\nand came,\n" * 10, "text"),
    ("It rained,so they left.\n" * 20, "text"),
    ("\ud800" * 5000, "text"),
    ("['a', 'b']" * 50, "text"),
    ("- one item\n- another, longer item\n- a third\n" * 20, "text"),
    (json.dumps({"a": [1, 2, 3]}), "json"),
    (json.dumps([{"a": 1}] * 50, indent=2), "json"),
    ("\n".join(['{"a": 1}'] * 5), "json_lines"),
    (json.dumps([{"name": "f", "parameters": {"type": "object", "properties": {}}}]), "tool_docs"),
    ("<!DOCTYPE html>\n<html><body><p>x</p></body></html>", "html"),
    ("2026-11-29 10:00:00,123 INFO started\n" * 10, "log"),
    ("[ERROR] it broke\n" * 10, "log"),
    ('127.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1\n' * 9, "log"),
    ("Output:\nTraceback (most recent call last):\n  File 'x'\nValueError: y\n", "log"),
    ("a,b,c\n" + "1,2,3\n" * 20, "table"),
    ("a\tb\n" + "1\t2\n" * 20, "table"),
    ("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 20, "table"),
    ("import os\n\n\ndef f(x):\n    return x\n", "code"),
    ("# Title\n\nSome words.\n\n## Part\n\nMore words.\n" * 3, "markdown"),
    ("How to call it:\n\n```python\nf(1)\n```\n", "markdown"),
    ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "diff"),
    ("#include <stdio.h>\nint main(void) {\n  int x = 1;\n  return x;\n}\n" * 4, "code"),
]


@pytest.mark.parametrize(("text", "kind"), SAMPLES)
def test_detect_kind(text: str, kind: ContentKind) -> None:
    assert detect_kind(text) == kind


def test_detection_looks_at_the_beginning_of_huge_texts_only() -> None:
    assert detect_kind("a,b,c\n" * 1_000_000) == "table"
    assert detect_kind("[" * 5_000_000) == "text"


def compress(text: str, target_tokens: int = 60, query: str = "") -> Any:
    return AutoCompressor().compress(text, query=query, target_tokens=target_tokens, counter=COUNTER)


@pytest.mark.parametrize(("text", "kind"), SAMPLES)
def test_small_content_is_returned_unchanged_with_its_kind(text: str, kind: ContentKind) -> None:
    rendition = compress(text, 100_000)
    assert rendition.text == text
    assert not rendition.degraded


def test_a_label_stays_in_front_of_structured_content() -> None:
    body = json.dumps([{"id": number} for number in range(300)])
    rendition = compress("Observation:\n" + body, 100)
    assert rendition.kind == "json"
    label, shortened = rendition.text.split("\n", 1)
    assert label == "Observation:"
    assert short_reference(body) in json.loads(shortened)[-1]
    assert COUNTER.count(rendition.text) <= 100


def test_lines_before_a_json_document_stay_and_it_stays_json() -> None:
    body = json.dumps([{"id": number} for number in range(300)], indent=1)
    rendition = compress("I found these rows.\nThere may be more.\n\n" + body, 100)
    assert rendition.kind == "json"
    assert rendition.text.startswith("I found these rows.\nThere may be more.\n\n[")
    json.loads(rendition.text.split("\n\n", 1)[1])


@pytest.mark.parametrize("kind", get_args(ContentKind))
def test_any_content_may_be_given_as_any_kind(kind: ContentKind) -> None:
    for text, _ in SAMPLES:
        for target_tokens in (0, 60):
            rendition = AutoCompressor().compress_as(
                kind, text * 20, query="what is a", target_tokens=target_tokens, counter=COUNTER
            )
            assert rendition.kind == kind
            assert COUNTER.count(rendition.text) <= COUNTER.count(text * 20)


def test_configuration_tells_what_makes_a_difference() -> None:
    pytest.importorskip("bm25s")
    configurations = {
        AutoCompressor().configuration,
        AutoCompressor(ranker=NoRanker()).configuration,
        AutoCompressor(head_tail=HeadTail(0.5)).configuration,
    }
    assert len(configurations) == 3
    assert "bm25s-" in AutoCompressor().configuration


def test_without_the_extra_content_is_still_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)  # missing, or there and broken: importing it fails
    assert default_ranker() == NoRanker()
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[compress\]"):
        Bm25Ranker()
    with pytest.raises(MissingDependencyError):
        Extractive()
    rendition = compress(PROSE, 60, query="rain")
    assert rendition.compressor == "headtail"
    assert not rendition.degraded
    rows = json.dumps([{"id": number} for number in range(300)])
    assert json.loads(compress(rows, 100, query="17").text)[0] == {"id": 0}


SCRIPT = """
import hashlib, sys
from asymspec_agents.compress import AutoCompressor
from asymspec_agents.tokens import EstimateCounter
from tests.unit.test_compress_auto import PROSE, SAMPLES
done = hashlib.sha256(AutoCompressor().configuration.encode())
for text, _ in [*SAMPLES, (PROSE + "The lighthouse keeper of Arkona, Karl, liked rain. " + PROSE, "text")]:
    rendition = AutoCompressor().compress(
        text * 9, query="what did the keeper of the lighthouse like, a 1 2?", target_tokens=90,
        counter=EstimateCounter(),
    )
    done.update(repr(rendition).encode("utf-8", "surrogatepass"))
print(done.hexdigest())
"""


def test_renditions_are_the_same_in_every_process() -> None:
    digests = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-W", "error", "-c", SCRIPT]
        result = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        digests.add(result.stdout)
    assert len(digests) == 1


REPETITIVE = [
    ".",
    ". ",
    '"',
    '\\"',
    "\n",
    " ",
    "[",
    "(",
    "😀",
    "🇩🇪",
    "e\u0301",
    "a\n",
    '"\n',
    "\ud800",
    "A",
    "aA1_",
]


@pytest.mark.full
@pytest.mark.parametrize("piece", REPETITIVE)
def test_cost_stays_linear_on_repetitive_content(piece: str) -> None:
    text = '["' + piece * (300_000 // len(piece))  # what is quadratic would not end
    for kind in get_args(ContentKind):
        rendition = AutoCompressor().compress_as(
            kind, text, query="a name 1", target_tokens=100, counter=COUNTER
        )
        assert COUNTER.count(rendition.text) <= 100
