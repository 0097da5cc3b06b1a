"""What tracing costs: `python benchmarks/trace.py` prints tables and, last, a line of JSON.

The recorder's microseconds per block at each level, the rule with and without detail, and the viewer on a
trace of 10 MB: seconds to read it and make the page, and, where playwright and a Chromium are found, seconds
until the browser shows the first view.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

import torch
from benchmarks.provenance import provenance

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.rule import verify_block
from asymspec_agents.engine.arms import ARMS
from asymspec_agents.engine.loop import Block
from asymspec_agents.engine.positions import positions
from asymspec_agents.engine.recorded import RequestRecord, TokenTexts
from asymspec_agents.engine.request import DecodeRequest
from asymspec_agents.engine.trim import Step
from asymspec_agents.recording import NULL_RECORDER, for_request
from asymspec_agents.router import ContextRouter
from asymspec_agents.trace import JSONLRecorder
from asymspec_agents.trace.story import read_story
from asymspec_agents.trace.viewer import render_page, story_data
from asymspec_agents.views import ViewPolicy
from benchmarks.router import conversation

VOCAB = 151_936  # Qwen's
NUM_PLACES = 3
LEVELS: dict[str, dict[str, Any]] = {
    "summary": {},
    "summary, content": {"captures_content": True},
    "detail": {"level": "detail"},
    "detail, content": {"level": "detail", "captures_content": True},
}


class Words:
    """A tokenizer whose tokens are words of a few letters."""

    def __init__(self) -> None:
        rng = random.Random(0)
        self._words = [
            " " + "".join(rng.choices("abcdefghijklmnop", k=rng.randint(1, 8))) for _ in range(997)
        ]

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(self._words[token % len(self._words)] for token in token_ids)


def blocks(number: int, vocab: int, *, num_alternatives: int | None) -> list[Block]:
    """Blocks of random logits, judged by the rule."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(number):
        t, a, b = (3 * torch.randn((1, NUM_PLACES, vocab), generator=generator) for _ in range(3))
        a = t + 0.5 * a
        drafts = a.argmax(dim=-1)
        result = verify_block(Rule(), drafts, a, b, t, num_alternatives=num_alternatives)
        tokens = result.tokens[0, : int(result.num_tokens[0])].tolist()
        origins = ["accepted"] * int(result.num_accepted[0]) + ["fused"] * int(result.num_fused[0])
        judged = result.divergence[0, : int(result.num_judged[0])].tolist()
        detail = None if result.detail is None else positions(result.detail, tokens, drafts)
        made.append(Block(tuple(tokens), tuple(origins), NUM_PLACES, tuple(judged), positions=detail))  # type: ignore[arg-type]
    return made


def record_blocks(record: RequestRecord, given: list[Block], tokenizer: Words) -> None:
    for block in given:
        pieces = tuple(
            (tokenizer.decode([token], skip_special_tokens=True), origin)
            for token, origin in zip(block.tokens, block.origins, strict=True)
        )
        record.block(block, Step(block.tokens, block.origins, pieces), 0.05)


def recorder_cost(folder: Path, number: int, repeats: int) -> dict[str, float]:
    """Microseconds per block spent recording, the median of `repeats`; the file is written."""
    tokenizer = Words()
    plain = blocks(number, 1_000, num_alternatives=None)
    detailed = blocks(number, 1_000, num_alternatives=5)
    found = {"off": _per_block(lambda: _recorded(NULL_RECORDER, plain, tokenizer), number, repeats)}
    for name, options in LEVELS.items():
        given = detailed if "level" in options else plain
        with JSONLRecorder(folder / "cost.jsonl", **options) as recorder:
            found[name] = _per_block(
                lambda recorder=recorder, given=given: _recorded(recorder, given, tokenizer), number, repeats
            )
    return found


def _recorded(recorder: Any, given: list[Block], tokenizer: Words) -> None:
    request = DecodeRequest(full=[1], compressed=[1], request_id="r")
    record_blocks(RequestRecord(recorder, request, tokenizer, TokenTexts(tokenizer)), given, tokenizer)


def rule_cost(repeats: int) -> dict[str, float]:
    """Microseconds of one block's rule at a real vocabulary, without and with detail brought to the host."""
    t, a, b = (torch.randn((1, NUM_PLACES, VOCAB)) for _ in range(3))
    drafts = a.argmax(dim=-1)

    def judge(num_alternatives: int | None) -> None:
        result = verify_block(Rule(), drafts, a, b, t, num_alternatives=num_alternatives)
        tokens = result.tokens[0].tolist()
        if result.detail is not None:
            positions(result.detail, tokens, drafts)

    return {
        "without": _per_block(lambda: judge(None), 1, repeats),
        "with detail": _per_block(lambda: judge(5), 1, repeats),
    }


def _per_block(work: Callable[[], None], number: int, repeats: int) -> float:
    work()
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        spent.append((time.process_time() - started) / number * 1e6)
    return statistics.median(spent)


def write_trace(path: Path, num_bytes: int) -> None:
    """A trace of an agent whose conversation grows, with contents and detail, of at least `num_bytes`."""
    tokenizer, given = Words(), blocks(60, 1_000, num_alternatives=5)
    messages = conversation(400)
    with JSONLRecorder(path, captures_content=True, level="detail") as recorder:
        router = ContextRouter(ViewPolicy(), recorder=recorder)
        number = 0
        while path.stat().st_size < num_bytes:
            number += 1
            name = f"request {number}"
            with for_request(name):
                router.route(messages[: 2 + 2 * (number % 200)])
            request = DecodeRequest(full=[1], compressed=[1], request_id=name, arm=ARMS["asymspec"])
            record = RequestRecord(recorder, request, tokenizer, TokenTexts(tokenizer))
            recorder.record(
                "request",
                request_id=name,
                arm="asymspec",
                mode="asymspec",
                prompt_tokens={"verifier": 900 + number, "base": 900 + number, "drafter": 4_000 + 9 * number},
                cached_tokens={"verifier": 800, "base": 800, "drafter": 3_900},
            )
            record_blocks(record, given, tokenizer)
            num_tokens = sum(len(block.tokens) for block in given)
            record.end("stop", num_tokens, 4.0, 1.0, 1.1, {"verifier": 1_100})


def viewer_cost(folder: Path, num_bytes: int) -> dict[str, Any]:
    """Seconds of each step from the file to the first view."""
    trace, page = folder / "trace.jsonl", folder / "trace.html"
    write_trace(trace, num_bytes)
    started = time.perf_counter()
    story = read_story(trace)
    read_s = time.perf_counter() - started
    started = time.perf_counter()
    page.write_text(render_page(story_data(story), story.title), "utf-8")
    return {
        "trace_bytes": trace.stat().st_size,
        "num_calls": len(story.calls),
        "num_events": story.num_events,
        "read_s": read_s,
        "page_s": time.perf_counter() - started,
        "page_bytes": page.stat().st_size,
        **_browser(page),
    }


def _browser(page: Path) -> dict[str, Any]:
    """Seconds until the first view stands, and of choosing another call; the median of five."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {"first_view_s": None}
    if chromium is None:
        return {"first_view_s": None}
    first, other = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1400, "height": 900})
            started = time.perf_counter()
            tab.goto(page.as_uri())
            tab.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")  # painted
            first.append(time.perf_counter() - started)
            started = time.perf_counter()
            tab.keyboard.press("Tab")
            tab.evaluate("document.getElementById('list').focus()")
            tab.keyboard.press("End")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            other.append(time.perf_counter() - started)
            tab.close()
        version = browser.version
        browser.close()
    return {
        "first_view_s": statistics.median(first),
        "another_call_s": statistics.median(other),
        "chromium": version,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--megabytes", type=float, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = recorder_cost(folder, 200, args.repeats)
        rule = rule_cost(args.repeats)
        viewer = viewer_cost(folder, int(args.megabytes * 1e6))
    print("recording a block, CPU µs: " + ", ".join(f"{name} {cost:.0f}" for name, cost in recorder.items()))
    print(f"the rule over {VOCAB:,} tokens, CPU µs: " + ", ".join(f"{k} {v:.0f}" for k, v in rule.items()))
    for key, value in viewer.items():
        print(f"{key}: {value:.2f}" if isinstance(value, float) else f"{key}: {value}")
    made_with = provenance("torch", "pydantic", num_repeats=args.repeats, num_places=NUM_PLACES)
    print(json.dumps({"provenance": made_with, "recorder_us": recorder, "rule_us": rule, "viewer": viewer}))


if __name__ == "__main__":
    main()
