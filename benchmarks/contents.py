"""Texts of every content kind for benchmarks: made up from a seed, and Python's own standard library."""

from __future__ import annotations

import difflib
import json
import random
import re
import sysconfig
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from asymspec_agents.compress import ContentKind

from .passages import passages

__all__ = ["CONTENTS", "content"]

WORDS = re.findall(
    r"\w+", "amber basin cedar delta ember fjord grove harbor inlet jetty kiosk ledge maple north ocean"
)
LEVELS = ("INFO",) * 60 + ("DEBUG",) * 30 + ("WARNING",) * 9 + ("ERROR",)
TRACE = """Traceback (most recent call last):
  File "/srv/app/worker.py", line {line}, in run
    self.step(job)
  File "/srv/app/jobs.py", line 88, in step
    raise ValueError("job {job} has no owner")
ValueError: job {job} has no owner
"""


def _record(rng: random.Random, number: int) -> dict[str, object]:
    return {
        "id": f"INV-{number:06}",
        "created": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}T{number % 24:02}:00:00Z",
        "status": "failed" if rng.random() < 0.003 else rng.choice(("open", "paid", "paid")),
        "amount": round(rng.random() * 1_000, 2),
        "customer": {"name": f"{rng.choice(WORDS)} {rng.choice(WORDS)}", "email": f"c{number}@example.com"},
        "note": " ".join(rng.choices(WORDS, k=12)),
        "tags": rng.sample(WORDS, 2),
    }


def _json(rng: random.Random, size: int) -> str:
    return json.dumps({"page": 1, "rows": [_record(rng, number) for number in range(size // 330 + 1)]})


def _indented(rng: random.Random, size: int) -> str:
    rows = [_record(rng, number) for number in range(size // 480 + 1)]
    return json.dumps({"page": 1, "rows": rows}, indent=2)


def _json_lines(rng: random.Random, size: int) -> str:
    return "\n".join(json.dumps(_record(rng, number)) for number in range(size // 330 + 1))


def _tool_docs(rng: random.Random, size: int) -> str:
    def tool(number: int) -> dict[str, object]:
        properties = {
            word: {"type": "string", "description": " ".join(rng.choices(WORDS, k=20))}
            for word in rng.sample(WORDS, 4)
        }
        return {
            "name": f"tool_{number}",
            "description": " ".join(rng.choices(WORDS, k=40)),
            "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]},
        }

    return json.dumps([tool(number) for number in range(size // 1_150 + 1)])


def _log(rng: random.Random, size: int) -> str:
    lines, length = [], 0
    while length < size:
        number = len(lines)
        level = rng.choice(LEVELS)
        stamp = (
            f"2026-11-30 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02},{number % 999:03}"
        )
        line = f"{stamp} {level} worker-{rng.randrange(8)} {rng.choice(WORDS)} request {number}"
        line += f" done in {number % 97} ms"
        if level == "ERROR":
            line += "\n" + TRACE.format(line=rng.randrange(400), job=number).rstrip()
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def _table(rng: random.Random, size: int) -> str:
    rows = ["id,day,region,units,price,note"]
    for number in range(size // 56 + 1):
        day = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"
        price = f"{rng.random() * 90:.2f}"
        rows.append(
            f"{number},{day},{rng.choice(WORDS)},{rng.randrange(50)},{price},"
            f"{' '.join(rng.choices(WORDS, k=3))}"
        )
    return "\n".join(rows)


def _library() -> Iterator[str]:
    """The standard library's modules, over and over."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources = [path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.py"))]
    return cycle([source.replace("from __future__", "# from __future__") for source in sources])


def _python(rng: random.Random, size: int) -> str:
    text = ""
    for source in _library():
        text += source + "\n"
        if len(text) >= size:
            return text
    return text


def _script(rng: random.Random, size: int) -> str:
    def function(number: int) -> str:
        name = f"{rng.choice(WORDS)}{rng.choice(WORDS).title()}{number}"
        return (
            f"/**\n * {' '.join(rng.choices(WORDS, k=8))}.\n */\n"
            f"export async function {name}(a, b = '{{') {{\n"
            f"  // {' '.join(rng.choices(WORDS, k=6))}\n  const text = `x ${{a}} }}`;\n"
            f"  if (a > b) {{\n    return {{ {rng.choice(WORDS)}: a * {number} }};\n  }}\n"
            f'  for (const item of b) {{\n    await send(item, "{rng.choice(WORDS)}");\n  }}\n'
            "  return text;\n}\n"
        )

    return "import fs from 'fs';\n\n" + "\n".join(function(number) for number in range(size // 330 + 1))


def _diff(rng: random.Random, size: int) -> str:
    text = ""
    for number, source in enumerate(_library()):
        before = source.splitlines()[:2_000]
        after = [line for line in before if rng.random() > 0.01]
        after = [line + "  # seen" if rng.random() < 0.02 else line for line in after]
        name = f"lib/module{number}.py"
        text += f"diff --git a/{name} b/{name}\n"
        text += "\n".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")) + "\n"
        if len(text) >= size:
            return text
    return text


def _prose(rng: random.Random, size: int) -> str:
    return "\n\n".join(passages(size // 600 + 1))


def _markdown(rng: random.Random, size: int) -> str:
    sections = []
    for number, passage in enumerate(passages(size // 1_000 + 1)):
        rows = "\n".join(f"| {rng.choice(WORDS)} | {rng.randrange(900)} |" for _ in range(6))
        sections.append(
            f"## {rng.choice(WORDS).title()} {number}\n\n{passage}\n\n- one {rng.choice(WORDS)}\n- two\n\n"
            f"```python\ndef f{number}(x):\n    return x * {number}\n```\n\n| name | n |\n|---|---|\n{rows}\n"
        )
    return "# Handbook\n\n" + "\n".join(sections)


def _html(rng: random.Random, size: int) -> str:
    links = "".join(f'<li><a href="/p/{word}">{word}</a></li>' for word in WORDS)
    body = "".join(
        f'<section class="c"><h2>{rng.choice(WORDS)}</h2>'
        f"<p>{passage}</p><ul><li>one <b>b</b></li></ul></section>\n"
        for passage in passages(size // 730 + 1)
    )
    return (
        f"<!DOCTYPE html>\n<html><head><title>Handbook</title><script>var a = 1;</script></head>\n<body>"
        f"<nav><ul>{links}</ul></nav><main><h1>Handbook</h1>\n{body}</main><footer>Imprint</footer></body></html>"
    )


CONTENTS: dict[str, tuple[ContentKind, Callable[[random.Random, int], str]]] = {
    "prose": ("text", _prose),
    "markdown": ("markdown", _markdown),
    "html": ("html", _html),
    "json": ("json", _json),
    "json, indented": ("json", _indented),
    "json lines": ("json_lines", _json_lines),
    "tool docs": ("tool_docs", _tool_docs),
    "python": ("code", _python),
    "javascript": ("code", _script),
    "log": ("log", _log),
    "csv": ("table", _table),
    "diff": ("diff", _diff),
}


def content(name: str, num_chars: int, seed: int = 0) -> str:
    """About `num_chars` characters of the named content."""
    return CONTENTS[name][1](random.Random(f"{seed} {name}"), num_chars)
