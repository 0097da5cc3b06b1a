"""Other compressors' short forms: reads jobs as JSON lines from stdin, writes a line for each rival and job.

Runs in an environment of its own (see RIVALS for its packages), which needs nothing of this project's but
benchmarks/ and asymspec_agents/tokens.py: `python compression_rivals.py TOKENIZER_JSON < jobs > views`.
A rival that is not installed is left out. One that cannot aim at a size (`aims` false) is run as it comes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from asymspec_agents.compress.cuts import longest_fit
from asymspec_agents.tokens import TokenizerCounter

Count = Callable[[str], int]
Shorten = Callable[[str, str, int, Count], str]

_PASSAGE = re.compile(r"(?m)^(?=Passage \d+:\n)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def head(text: str, query: str, target: int, count: Count) -> str:
    return text[: longest_fit(lambda size: count(text[:size]), len(text), target)]


def tail(text: str, query: str, target: int, count: Count) -> str:
    return text[len(text) - longest_fit(lambda size: count(text[-size:]), len(text), target) :]


def langchain_trim(text: str, query: str, target: int, count: Count) -> str:
    """`trim_messages` with the arguments SummarizationMiddleware gives it, on one message."""
    from langchain_core.messages import HumanMessage, trim_messages

    kept = trim_messages(
        [HumanMessage(text)],
        max_tokens=target,
        token_counter=lambda messages: sum(count(str(message.content)) for message in messages),
        start_on="human",
        strategy="last",
        allow_partial=True,
        include_system=True,
    )
    return "".join(str(message.content) for message in kept)


def sumy_lexrank(text: str, query: str, target: int, count: Count) -> str:
    """LexRank's sentences, best first, as many as fit, in their order."""
    kept: list[tuple[int, str]] = []
    for place, sentence in _lexrank(text):
        sentences = sorted([*kept, (place, sentence)])
        if count("\n".join(part for _, part in sentences)) > target:
            break
        kept = sentences
    return "\n".join(part for _, part in kept)


@functools.cache
def _lexrank(text: str) -> list[tuple[int, str]]:
    """The sentences with their places, best first. Its own splitter needs a download: they are split here."""
    from sumy.parsers.plaintext import PlaintextParser
    from sumy.summarizers.lex_rank import LexRankSummarizer

    rated: list[tuple[int, str]] = []

    def keep_all(infos: Any) -> Any:  # called with the sentences, best first
        rated.extend((info.order, str(info.sentence)) for info in infos)
        return infos

    LexRankSummarizer()(PlaintextParser(text.replace("\n", "\n\n"), _Words()).document, keep_all)
    return rated


class _Words:
    def to_sentences(self, paragraph: str) -> tuple[str, ...]:
        return tuple(part for part in _SENTENCE.split(paragraph) if part.strip())

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(re.findall(r"\w+", sentence))


def bm25_passages(text: str, query: str, target: int, count: Count) -> str:
    """The passages that rank-bm25 puts first, whole, as many as fit, in their order."""
    from rank_bm25 import BM25Okapi

    passages = [part for part in _PASSAGE.split(text) if part.strip()]
    index = BM25Okapi([re.findall(r"\w+", part.lower()) for part in passages])
    scores = index.get_scores(re.findall(r"\w+", query.lower()))
    kept: list[int] = []
    for number in sorted(range(len(passages)), key=lambda at: -scores[at]):
        if count("".join(passages[at] for at in sorted([*kept, number]))) <= target:
            kept.append(number)
    return "".join(passages[at] for at in sorted(kept))


def headroom(text: str, query: str, target: int, count: Count) -> str:
    """`headroom.compress` on a tool's result of prose; its model for prose is a download."""
    return _headroom(text, query)


def headroom_rows(text: str, query: str, target: int, count: Count) -> str:
    """The same on a tool's result that has the passages as JSON rows, the form it is made for."""
    rows = []
    for passage in filter(str.strip, _PASSAGE.split(text)):
        lines = passage.split("\n", 2)
        rows.append({"title": lines[1], "text": lines[2].strip() if len(lines) > 2 else ""})
    return _headroom(json.dumps(rows, ensure_ascii=False), query)


def _headroom(text: str, query: str) -> str:
    from headroom import compress

    function = {"name": "search", "arguments": json.dumps({"query": query})}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": query},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": text},
    ]
    return str(compress(messages, model="gpt-4o", protect_recent=0).messages[-1]["content"])


def fast_pruner(text: str, query: str, target: int, count: Count) -> str:
    """Its query-aware sentence filter at its own threshold; its token counter, a download, is not used."""
    from fast_pruner.core import compressor

    vars(compressor)["LocalTokenizerFactory"] = lambda name: None
    return str(compressor.ContextCompressor()._prune_irrelevant_sentences(text, query))


RIVALS: dict[str, tuple[str | None, Shorten, bool]] = {
    "head": (None, head, True),
    "tail": (None, tail, True),
    "langchain trim_messages": ("langchain-core", langchain_trim, True),
    "sumy LexRank": ("sumy", sumy_lexrank, True),
    "rank-bm25 passages": ("rank-bm25", bm25_passages, True),
    "headroom-ai, prose": ("headroom-ai", headroom, False),
    "headroom-ai, JSON rows": ("headroom-ai", headroom_rows, False),
    "fast-pruner": ("fast-pruner", fast_pruner, False),
}


def _views(jobs: list[dict[str, Any]], count: Count) -> Iterator[dict[str, Any]]:
    for name, (package, shorten, aims) in RIVALS.items():
        try:
            version = importlib.metadata.version(package) if package else None
        except importlib.metadata.PackageNotFoundError:
            continue
        done = set()
        for job in jobs:
            if not aims and job["text_id"] in done:
                continue
            done.add(job["text_id"])
            yield {
                "rival": name,
                "version": version,
                "text_id": job["text_id"],
                "ratio": job["ratio"] if aims else None,
                "view": shorten(job["text"], job["query"], job["target_tokens"], count),
            }


def main() -> None:
    from tokenizers import Tokenizer

    logging.disable(logging.CRITICAL)
    count = TokenizerCounter(Tokenizer.from_file(sys.argv[1])).count
    jobs = [json.loads(line) for line in sys.stdin]
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # libraries print
        for view in _views(jobs, count):
            out.write(json.dumps(view) + "\n")


if __name__ == "__main__":
    main()
