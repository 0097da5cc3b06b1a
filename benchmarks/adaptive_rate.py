"""Does a moving compression ratio keep prompts' beginnings? Replays recorded conversations call by call.

Every prefix of a conversation that ends before an assistant message is one call. Answers report a divergence
that a seeded script makes up (always high, always low, or one of both at random), so the ratio moves as often
as its controller lets it. For each call: the share of the call before's compressed view (tokens by estimate,
message by message) that this view begins with, with the controller and without; and whether any text that was
compressed before looks different now, which must never be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.tokens import CachedCounter, EstimateCounter
from asymspec_agents.views import RateControl, RateState, ViewPolicy

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from evals.provenance import provenance

COUNTER = CachedCounter(EstimateCounter())
DIVERGENCES = {"high": (0.4,), "low": (0.0,), "changing": (0.4, 0.0), "none": ()}


def conversations(data: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The recorded conversations as messages; users who were recorded alone get a short answer each."""
    for line in (data / "multi_challenge" / "questions.jsonl").read_text("utf-8").splitlines():
        yield "multi_challenge", json.loads(line)["CONVERSATION"]
    for line in (data / "api_bank" / "dialogues.jsonl").read_text("utf-8").splitlines():
        yield "api_bank", list(_dialogue(json.loads(line)["turns"]))
    for file in sorted((data / "bfcl" / "memory_conversations").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            said = [message for turn in json.loads(line)["question"] for message in turn]
            pairs = ((message, {"role": "assistant", "content": "I have noted that."}) for message in said)
            yield "bfcl_memory", [message for pair in pairs for message in pair]


def _dialogue(turns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, turn in enumerate(turns):
        if turn["role"] != "API":
            yield {"role": "user" if turn["role"] == "User" else "assistant", "content": turn["text"]}
            continue
        asked = {"name": turn["api_name"], "arguments": json.dumps(turn["param_dict"])}
        call = {"id": f"c{number}", "type": "function", "function": asked}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(turn["result"])}


@dataclass
class Tally:
    """Sums over calls, in tokens by estimate."""

    num_calls: int = 0
    num_moves: int = 0
    num_rewritten: int = 0
    before_tokens: int = 0
    common_tokens: int = 0
    view_tokens: int = 0
    ratios: list[float] = field(default_factory=list)


def replay(messages: list[dict[str, Any]], regime: str, tally: Tally, policy: ViewPolicy, seed: str) -> None:
    """Routes every call of one conversation with the regime's answers."""
    router, control, draw = ContextRouter(policy, counter=COUNTER), RateControl(), random.Random(seed)
    state, before = RateState(), None
    starts = [index for index, message in enumerate(messages) if message["role"] == "assistant" and index]
    for end in [*starts, len(messages)]:
        routed = router.route(messages[:end], rate=state)
        if before is not None:
            tally.num_calls += 1
            _compare(before, routed, tally)
        before = routed
        if DIVERGENCES[regime]:
            report = AsymSpecReport(
                mean_divergence=draw.choice(DIVERGENCES[regime]), drafted=100, accepted=90
            )
            moved = control.after(state, report, num_turns=routed.report.num_turns)
            tally.num_moves += moved.steps != state.steps
            state = moved
    tally.ratios.append(state.ratio(10**6, policy.ratio))


def _compare(before: RoutedContext, after: RoutedContext, tally: Tally) -> None:
    shown = {(edit.message, edit.part): edit.text for edit in after.edits}
    tally.num_rewritten += sum(shown.get((edit.message, edit.part)) != edit.text for edit in before.edits)
    sizes = [_tokens(message) for message in before.compressed]
    common = 0
    for one, other, size in zip(before.compressed, after.compressed, sizes, strict=False):
        if one != other:
            break
        common += size
    tally.before_tokens += sum(sizes)
    tally.common_tokens += common
    tally.view_tokens += after.report.compressed_tokens


def _tokens(message: Message) -> int:
    return sum(COUNTER.count(text) for text in message.texts())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--limit", type=int, default=60, help="conversations of each set")
    parser.add_argument(
        "--min-part-tokens", type=int, default=60, help="lower than usual: more is compressed"
    )
    args = parser.parse_args()
    by_set: dict[str, list[list[dict[str, Any]]]] = {}
    for name, messages in conversations(Path(os.environ["ASYMSPEC_DATA"])):
        by_set.setdefault(name, []).append(messages)
    policy = ViewPolicy(min_part_tokens=args.min_part_tokens, first_sight_tokens=400)
    results: dict[str, dict[str, Any]] = {}
    headings = f"{'calls':>7}{'moves':>7}{'rewritten':>11}{'prefix kept':>13}{'tokens':>10}"
    print(f"{'set':<18}{'answers':<10}{headings}")
    for name, found in by_set.items():
        for regime in ("none", *(regime for regime in DIVERGENCES if regime != "none")):
            tally = Tally()
            for number, messages in enumerate(found[: args.limit]):
                replay(messages, regime, tally, policy, f"{name} {number}")
            kept = tally.common_tokens / max(tally.before_tokens, 1)
            results.setdefault(name, {})[regime] = {
                "num_calls": tally.num_calls,
                "num_moves": tally.num_moves,
                "num_rewritten": tally.num_rewritten,
                "prefix_kept": kept,
                "view_tokens": tally.view_tokens,
                "mean_last_ratio": sum(tally.ratios) / max(len(tally.ratios), 1),
            }
            print(
                f"{name:<18}{regime:<10}{tally.num_calls:>7}{tally.num_moves:>7}{tally.num_rewritten:>11}"
                f"{kept:>13.3f}{tally.view_tokens:>10}"
            )
    made_with = provenance("bm25s", limit=args.limit, min_part_tokens=args.min_part_tokens)
    print(json.dumps({"provenance": made_with, "results": results}))


if __name__ == "__main__":
    main()
