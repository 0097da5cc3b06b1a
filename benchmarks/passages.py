"""Input for benchmarks and tests of real models: public records where they are at hand, else made-up text."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

__all__ = ["long_text", "made_up", "numbered", "passages"]

SUBJECTS = ("The harbour office", "Our survey team", "The museum", "A local cooperative", "The rail company")
VERBS = ("recorded", "published", "lost", "restored", "compared", "announced", "sold", "examined")
OBJECTS = ("two measurements", "the old ledgers", "a map of the coast", "its yearly report", "forty letters")
PLACES = ("in Bergen", "near the river", "at the northern gate", "in the archive", "on platform nine")
ENDINGS = ("before the storm", "although nobody asked for it", "for the third time", "as the law demands")


def passages(num: int, seed: int = 0) -> list[str]:
    """`num` passages of about 600 characters: prose of ASYMSPEC_DATA's multihop records where that is set."""
    folder = os.environ.get("ASYMSPEC_DATA")
    records = Path(folder, "multihop", "hotpotqa.jsonl") if folder else None
    found = _recorded(records, num) if records is not None and records.is_file() else []
    return found + made_up(num, seed)[len(found) :]


def made_up(num: int, seed: int = 0) -> list[str]:
    """`num` passages that are the same on every machine."""
    return [_made_up(random.Random(f"{seed} {index}")) for index in range(num)]


def long_text(num_chars: int, seed: int = 0) -> str:
    """At least `num_chars` characters of passages, numbered."""
    return numbered(passages(num_chars // 200 + 1, seed), num_chars)


def numbered(found: list[str], num_chars: int) -> str:
    """As many of the passages, numbered, as make `num_chars` characters."""
    text = ""
    for number, passage in enumerate(found, start=1):
        text += f"Passage {number}:\n{passage}\n\n"
        if len(text) >= num_chars:
            break
    return text


def _recorded(records: Path, num: int) -> list[str]:
    found: list[str] = []
    with records.open(encoding="utf-8") as lines:
        for line in lines:
            context = str(json.loads(line).get("context", ""))
            found += [part.strip() for part in context.split("Passage ") if len(part) > 200]
            if len(found) >= num:
                break
    return found[:num]


def _made_up(rng: random.Random) -> str:
    """Sentences that vary, and now and then a record as JSON."""
    sentences: list[str] = []
    while sum(map(len, sentences)) < 600:
        if rng.random() < 0.2:
            record = {"id": rng.randrange(10**8), "at": f"{rng.randrange(24):02}:{rng.randrange(60):02}"}
            sentences.append(json.dumps({**record, "values": [round(rng.random(), 3) for _ in range(3)]}))
        else:
            parts = (SUBJECTS, VERBS, OBJECTS, PLACES, ENDINGS)
            sentences.append(
                " ".join(rng.choice(part) for part in parts) + f" in {rng.randrange(1850, 2026)}."
            )
    return " ".join(sentences)
