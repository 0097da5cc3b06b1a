"""How many protected spans come through compression: `python benchmarks/protected_spans.py` prints a table.

For each content kind and share of the tokens kept: distinct spans of the text that stand in the rendition
byte for byte, of all; and of those that speak for themselves (`mentions`: addresses, paths, identifiers, …).
Each content is 40,000 characters; the query asks for one record. JSON is written to the given file.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from asymspec_agents.compress import AutoCompressor, HeadTail
from asymspec_agents.compress.base import Compressor
from asymspec_agents.compress.extractive import Extractive
from asymspec_agents.compress.protected import mentions, protected_spans
from asymspec_agents.tokens import EstimateCounter
from benchmarks.contents import CONTENTS, content
from evals.provenance import provenance

QUERY = "Which request failed, and what is the amount of invoice INV-000023 of cedar harbor?"
RATIOS = (0.5, 0.3, 0.15)
NUM_CHARS = 40_000
REPORTS = " ".join(  # prose with identifiers in it
    f"On 2026-03-{day % 28 + 1:02} ticket OPS-{4_000 + day} was closed after {day * 7 % 90 + 3} minutes. "
    f"Its cause was not in /var/log/app{day}.log, nobody saw it at https://status.example.com/{day}. "
    "Everyone agreed that the weather had been pleasant and that the meeting should be shorter next time. "
    "They talked about the garden, the new chairs and the music that somebody plays in the afternoon."
    for day in range(90)
)


def survival(compressor: Compressor, text: str, ratio: float) -> tuple[float, float]:
    """The shares of protected spans and of mentions that are in the rendition."""
    counter = EstimateCounter()
    target = int(counter.count(text) * ratio)
    made = compressor.compress(text, query=QUERY, target_tokens=target, counter=counter).text
    spans = {text[start:end] for start, end in protected_spans(text)}
    named = mentions(text)
    return _share(spans, made), _share(set(named), made)


def _share(wanted: set[str], made: str) -> float:
    return sum(span in made for span in wanted) / len(wanted) if wanted else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    texts = {name: content(name, NUM_CHARS) for name in CONTENTS} | {"reports": REPORTS}
    results: dict[str, Any] = {}
    print(f"{'content':<16}{'compressor':<12}" + "".join(f"{ratio:>16}" for ratio in RATIOS))
    for name, text in texts.items():
        compressors: dict[str, Compressor] = {"auto": AutoCompressor(), "head/tail": HeadTail()}
        if name in ("prose", "reports"):
            compressors["extractive"] = Extractive()
        for label, compressor in compressors.items():
            shares = [survival(compressor, text, ratio) for ratio in RATIOS]
            results[f"{name}: {label}"] = dict(zip(map(str, RATIOS), shares, strict=True))
            cells = "".join(f"{spans:>9.2f}/{named:.2f}  " for spans, named in shares)
            print(f"{name:<16}{label:<12}{cells}", flush=True)
    if args.output is not None:
        facts = provenance("bm25s", num_chars=NUM_CHARS)
        document = {"provenance": facts, "query": QUERY, "results": results}
        args.output.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
