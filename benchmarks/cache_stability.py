"""How much of each prompt a prefix cache can keep: recorded conversations, replayed call by call.

`ASYMSPEC_DATA=… python benchmarks/cache_stability.py --tokenizer MODEL_FOLDER` writes
benchmarks/results/cache_stability.json and prints a table.

Conversations: BFCL's memory conversations (users' messages only, so each is answered "Understood."),
API-Bank's dialogues (calls of tools and their results), MultiChallenge's. A call is a conversation up to an
assistant message, or all of it where it ends otherwise. Its two views are rendered by the model's own chat
template.

Reused are the tokens that a prompt has in common, from its start, with the same view's prompt of the call
before. The best possible is what would be reused by the view that changes nothing but what it must: messages
of the call before are shown as they were then, except those of turns that left the last `keep_last` turns
since (and so had to stay verbatim until then), which have the form they now have; new messages have theirs.
So a turn that leaves counts as lost, with all behind it, only where its form really changes, and every other
change of what was sent is held against the view. For the full view no turn leaves: it must change nothing.

A budget that binds forces further changes. Under pressure are the calls whose prompt, had nothing changed but
that, would stand above the budget's high water; the share of the best is also given for all the others, where
no budget asks for a change. Under pressure the oldest turns move first, so that most of the prefix goes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from transformers import AutoTokenizer

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.messages import Message, parse_messages
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import TokenizerCounter
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.turns import read_history
from evals.provenance import provenance

OUTPUT = Path(__file__).parent / "results" / "cache_stability.json"
BUDGET_SHARE = 0.6  # of a conversation's last full prompt: what the binding budget allows each of its calls
POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"keep_last={num}": {"keep_last": num} for num in range(5)},
    **{
        f"keep_last={num}, short texts too": {
            "keep_last": num,
            "min_part_tokens": 20,
            "first_sight_tokens": 300,
        }
        for num in range(5)
    },
    "binding budget": {"budget": BUDGET_SHARE},
    "binding budget, short texts too": {"budget": BUDGET_SHARE, "min_part_tokens": 20},
}


@dataclass
class Reuse:
    """Tokens summed over calls."""

    num_calls: int = 0
    num_overflows: int = 0
    full_tokens: int = 0
    compressed_tokens: int = 0
    full_reused: int = 0
    full_best: int = 0
    compressed_reused: int = 0
    compressed_best: int = 0
    num_pressed: int = 0
    pressed_reused: int = 0
    pressed_best: int = 0

    def add(self, other: Reuse) -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def row(self) -> dict[str, Any]:
        return {
            **vars(self),
            "full_share_of_best": self.full_reused / max(1, self.full_best),
            "compressed_share_of_best": self.compressed_reused / max(1, self.compressed_best),
            "unpressed_share_of_best": (self.compressed_reused - self.pressed_reused)
            / max(1, self.compressed_best - self.pressed_best),
            "compressed_share_reused": self.compressed_reused / max(1, self.compressed_tokens),
        }


def conversations(folder: Path) -> dict[str, list[list[dict[str, Any]]]]:
    """Message lists by data set."""
    return {
        "bfcl memory": [
            _answered(record["question"]) for record in _records(folder / "bfcl", "memory_conv*/*")
        ],
        "api_bank": [
            _dialogue(record["turns"]) for record in _records(folder / "api_bank", "dialogues.jsonl")
        ],
        "multi_challenge": [
            record["CONVERSATION"] for record in _records(folder / "multi_challenge", "questions.jsonl")
        ],
    }


def _records(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def _answered(turns: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [message for turn in turns for message in (*turn, {"role": "assistant", "content": "Understood."})]


def _dialogue(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        if turn["role"] == "API":
            function = {"name": turn["api_name"], "arguments": json.dumps(turn["param_dict"])}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            result = json.dumps(turn["result"], ensure_ascii=False)
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        else:
            role = "user" if turn["role"] == "User" else "assistant"
            messages.append({"role": role, "content": turn["text"]})
    return messages


def replay(
    messages: list[dict[str, Any]],
    settings: dict[str, Any],
    template: ChatTemplate,
    counter: TokenizerCounter,
) -> Reuse:
    """The calls of one conversation, in order, by a router of their own."""
    settings = dict(settings)
    parsed = parse_messages(messages)
    if "budget" in settings:
        limit = int(settings.pop("budget") * len(template.ids(parsed)))
        settings["max_verifier_tokens"] = max(limit, 1)
    policy = ViewPolicy(**settings)
    router = ContextRouter(
        policy, counter=counter, prompt_counter=lambda shown, tools: len(template.ids(shown, tools))
    )
    ends = [end for end, message in enumerate(parsed) if end and message.role == "assistant"]
    if parsed[-1].role != "assistant":
        ends.append(len(parsed))
    reuse = Reuse()
    before: _Call | None = None
    for end in ends:
        try:
            routed = router.route(parsed[:end])
        except ContextOverflowError:
            reuse.num_overflows += 1
            before = None
            continue
        call = _Call(routed.full, routed.compressed, template)
        reuse.num_calls += 1
        reuse.full_tokens += len(call.full_ids)
        reuse.compressed_tokens += len(call.compressed_ids)
        if before is not None:
            leaving = _leaving(parsed[:end], len(before.full), policy)
            full = (*before.full, *call.full[len(before.full) :])
            compressed = tuple(
                call.compressed[index] if index in leaving or index >= len(before.compressed) else shown
                for index, shown in enumerate(
                    (*before.compressed, *call.compressed[len(before.compressed) :])
                )
            )
            full_ids = call.full_ids if full == call.full else template.ids(full)
            reuse.full_reused += _num_common(before.full_ids, call.full_ids)
            reuse.full_best += _num_common(before.full_ids, full_ids)
            reused = _num_common(before.compressed_ids, call.compressed_ids)
            is_best = compressed == call.compressed
            best = reused if is_best else _num_common(before.compressed_ids, template.ids(compressed))
            reuse.compressed_reused += reused
            reuse.compressed_best += best
            limit = policy.max_verifier_tokens
            unmoved = (*compressed[: len(before.compressed)], *parsed[len(before.compressed) : end])
            if limit is not None and len(template.ids(unmoved)) > policy.high_water * limit:
                reuse.num_pressed += 1
                reuse.pressed_reused += reused
                reuse.pressed_best += best
        before = call
    return reuse


class _Call:
    """A call's views and their prompts."""

    def __init__(
        self, full: tuple[Message, ...], compressed: tuple[Message, ...], template: ChatTemplate
    ) -> None:
        self.full, self.compressed = full, compressed
        self.full_ids, self.compressed_ids = template.ids(full), template.ids(compressed)


def _leaving(messages: Sequence[Message], num_before: int, policy: ViewPolicy) -> set[int]:
    """The messages of turns that were among the last `keep_last` of the call before, and are no more."""
    history = read_history(messages, policy.observation_markers, policy.call_markers)
    turns_before = max(
        (part.turn + 1 for part in history.parts if part.turn is not None and part.message < num_before),
        default=0,
    )
    left = range(max(0, turns_before - policy.keep_last), max(0, history.num_turns - policy.keep_last))
    return {part.message for part in history.parts if part.turn in left}


def _num_common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a model's folder")
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    template, counter = ChatTemplate(tokenizer), TokenizerCounter(tokenizer)
    recorded = conversations(Path(os.environ["ASYMSPEC_DATA"]))
    results: dict[str, dict[str, Any]] = {}
    print(
        f"{'policy':<36}{'data':<18}{'calls':>6}{'full':>8}{'compressed':>12}"
        f"{'pressed':>9}{'others':>8}{'reused':>8}{'tokens':>8}"
    )
    for name in options.policies:
        results[name] = {}
        for data, lists in recorded.items():
            total = Reuse()
            for messages in lists:
                total.add(replay(messages, POLICIES[name], template, counter))
            row = results[name][data] = total.row()
            print(
                f"{name:<36}{data:<18}{total.num_calls:>6}{row['full_share_of_best']:>8.3f}"
                f"{row['compressed_share_of_best']:>12.3f}{row['num_pressed']:>9}"
                f"{row['unpressed_share_of_best']:>8.3f}{row['compressed_share_reused']:>8.3f}"
                f"{total.compressed_tokens / max(1, total.full_tokens):>8.3f}",
                flush=True,
            )
    made_with = provenance("transformers", "bm25s", tokenizer=options.tokenizer.name)
    options.output.write_text(
        json.dumps({"provenance": made_with, "results": results}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
