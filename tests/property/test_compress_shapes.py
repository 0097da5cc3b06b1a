"""Large and hostile inputs of every kind: no exception, the target is met, nothing is quadratic."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from asymspec_agents.compress import AutoCompressor, ContentKind
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
SHAPES = {
    "deep arrays": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "one long line": "word " * 200_000,
    "many lines": "x\n" * 100_000,
    "no numbers": json.dumps([float("nan"), float("inf"), -float("inf")] * 3_000),
    "huge integers": json.dumps({"a": [10**400] * 50}) + " " * 2_000,
    "an integer beyond what Python reads": '{"rows": [' + ", ".join(["9" * 5_000] * 20) + "]}",
    "duplicate keys": "{" + ", ".join(['"a": {"b": 1, "b": 2}'] * 5_000) + "}",
    "surrogates": '{"a": "' + "\ud800" * 50_000 + '"}',
    "escapes": '["' + "\\" * 100_000,
    "NUL": "\x00" * 100_000,
    "right to left": "\u202eשלום עולם. " * 10_000,
    "combining": ("e" + "\u0301" * 50) * 2_000,
    "CR LF": "a line, with words\r\n" * 10_000,
    "line separators": "a\u2028b\u2029c\x85d " * 10_000,
    "broken UTF-8": bytes(range(256)).decode("utf-8", "surrogateescape") * 400,
    "braces": "f() {\n\n\n" * 30_000,
    "quotes": "\"'`" * 50_000,
    "triple quotes": 'def f():\n  """' * 20_000,
    "fences": "```\n# a\n" * 20_000,
    "tags": "<html>" + "<nav><main><p>" * 20_000,
    "hunks": "--- a\n+++ b\n@@ -1 +1 @@\n-a\n" * 10_000,
    "columns": "a,b,c\n" + "1,2,nan\n" * 20_000,
    "one row": "a," * 100_000,
    "errors": "ERROR x\n  at y\n" * 20_000,
}


@pytest.mark.parametrize("kind", [None, *get_args(ContentKind)])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_as_any_kind(shape: str, kind: ContentKind | None) -> None:
    text = SHAPES[shape]
    compressor = AutoCompressor()
    query = "what of word 1 and a"
    if kind is None:
        made = compressor.compress(text, query=query, target_tokens=300, counter=COUNTER)
    else:
        made = compressor.compress_as(kind, text, query=query, target_tokens=300, counter=COUNTER)
    assert COUNTER.count(made.text) <= 300
    if made.compressor in ("json", "json_lines"):
        for line in made.text.split("\n") if made.compressor == "json_lines" else [made.text]:
            json.loads(line, parse_int=str)
    assert "…" in made.text
    if made.compressor not in ("html", "markdown", "tool_docs"):
        assert short_reference(text)[:12] in made.text
