"""What a drafter of another family is worth: `python benchmarks/cross_family.py` prints tables, writes JSON.

(a) Two ways to draft, under lossless verification of the same texts: only tokens that both vocabularies have,
or freely in the drafter's own tokens, spelled anew in the verifier's. Free drafts are counted at their best:
their last token stands although it may be half a word, and spelling them costs nothing.
(b) AsymSpec with pairs of one family and of two: drafts accepted, tokens a block, seconds, and how often the
verifier wrote what the drafter has no token for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: spinning threads slow each other down
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

import torch

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.backends.request import ChatRequest
from asymspec_agents.decoding.spelling import Speller
from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.foreign import ForeignView
from asymspec_agents.engine.loop import draft
from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecRequest
from asymspec_agents.weights import show_progress
from benchmarks.passages import passages
from evals.provenance import provenance

PAIRS = (
    ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"),
    ("qwen2.5-coder-1.5b", "smollm2-135m"),
    ("smollm2-135m", "qwen2.5-coder-0.5b"),
)
NUM_PLACES = 3  # K = 2 and the place behind
FULL_CHARACTERS, SHORT_CHARACTERS = 1600, 300
OUTPUT = Path(__file__).parent / "results" / "cross_family.json"
QUESTIONS = (
    "Retell this in three sentences, with its names and numbers.",
    "Return what is known here as a JSON object, no other text.",
    "Write a Python function that returns the facts of this passage as a dictionary.",
)


@dataclass(frozen=True, slots=True)
class Drafting:
    """Blocks that one way of drafting needs for the same texts, and the tokens it got right in them."""

    way: str
    blocks: int
    tokens: int
    accepted: int
    drafter_forwards: int

    @property
    def tokens_a_block(self) -> float:
        """Tokens that a block emits, the verifier's own one included."""
        return self.tokens / self.blocks if self.blocks else 0.0


def requests(num_prompts: int, max_tokens: int) -> list[ChatRequest]:
    """Three passages each with a task; the compressed view has the beginning of the first alone."""
    made, found = [], passages(3 * num_prompts)
    for number in range(num_prompts):
        text = "\n\n".join(found[3 * number : 3 * number + 3])
        question = QUESTIONS[number % len(QUESTIONS)]
        full, short = (f"{text[:n]}\n\n{question}" for n in (FULL_CHARACTERS, SHORT_CHARACTERS))
        asymspec = AsymSpecRequest.model_validate({"edits": [{"message": 0, "text": short}]})
        message = Message(role="user", content=full)
        made.append(ChatRequest(messages=(message,), asymspec=asymspec, max_tokens=max_tokens))
    return made


@torch.inference_mode()
def drafting(backend: LocalBackend, request: ChatRequest, answer: list[int], way: str) -> Drafting:
    """How far each way of drafting follows an answer of the verifier, both reading the full view."""
    engine, template = backend.engine, backend.drafter_template
    family, model = engine.family, engine.models["drafter"]
    if family is None or template is None:
        raise SystemExit("the pair is of one family")
    view = ForeignView(
        model, template.ids(request.messages), KVCache(), family.transcriber, family.translation
    )
    view.prefill(lambda: None)
    writer = Speller(backend.template.tokenizer, family.transcriber.verifier)
    blocks = accepted = forwards = place = 0
    while place < len(answer):
        committed = answer[:place]
        view.rewind(committed)
        if way == "mapped":
            proposed = draft([view], committed, NUM_PLACES, engine.vocab_size).drafts[0].tolist()
        else:
            own, piece = [], view.unread(committed)
            for _ in range(NUM_PLACES):
                logits = model.forward(piece, view.cache, 1)[..., : family.vocab_size]
                piece = logits.argmax(dim=-1)
                own.append(int(piece))
            proposed = writer.ids(family.transcriber.drafter.spelled(own))
        forwards += NUM_PLACES
        right = 0
        while right < min(len(proposed), len(answer) - place) and proposed[right] == answer[place + right]:
            right += 1
        accepted += right
        blocks += 1
        place += right + 1
    return Drafting(way, blocks, len(answer), accepted, forwards)


def answer_ids(backend: LocalBackend, request: ChatRequest) -> list[int]:
    """The verifier's own answer from the full view."""
    plain = ChatRequest(messages=request.messages, max_tokens=request.max_tokens)
    text = backend.generate(plain).content
    ids: list[int] = backend.template.tokenizer.encode(text, add_special_tokens=False)
    return ids


def compared(backend: LocalBackend, asked: list[ChatRequest]) -> list[Drafting]:
    """Both ways of drafting, over all requests."""
    found: dict[str, list[Drafting]] = {"mapped": [], "free": []}
    for request in asked:
        answer = answer_ids(backend, request)
        for way, rows in found.items():
            rows.append(drafting(backend, request, answer, way))
    names = ("blocks", "tokens", "accepted", "drafter_forwards")
    return [
        Drafting(way, *(sum(getattr(row, name) for row in rows) for name in names))
        for way, rows in found.items()
    ]


def decoded(backend: LocalBackend, asked: list[ChatRequest]) -> dict[str, Any]:
    """AsymSpec's counts and seconds over all requests."""
    totals = {"emitted": 0, "blocks": 0, "drafted": 0, "accepted": 0, "respelled": 0, "reread": 0}
    divergence = 0.0
    started = time.perf_counter()
    for request in asked:
        report = backend.generate(request).report
        if report is None:
            raise SystemExit("an answer without a report")
        totals["emitted"] += report.accepted + report.fused
        divergence += report.mean_divergence
        for name in ("blocks", "drafted", "accepted"):
            totals[name] += getattr(report, name)
        if report.cross_family is not None:
            totals["respelled"] += report.cross_family.respelled
            totals["reread"] += report.cross_family.reread
    seconds = time.perf_counter() - started
    return {**totals, "seconds": seconds, "mean_divergence": divergence / max(1, len(asked))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pair", nargs=2, action="append", metavar=("VERIFIER", "DRAFTER"))
    parser.add_argument("--prompts", type=int, default=9, help="passages to ask about (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=48, help="longest answer (default %(default)s)")
    parser.add_argument("--dtype", default="bfloat16", help="of both models (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="JSON file (default %(default)s)")
    arguments = parser.parse_args()
    asked = requests(arguments.prompts, arguments.tokens)
    rows: list[dict[str, Any]] = []
    for verifier, drafter in arguments.pair or PAIRS:
        with show_progress() as progress:
            backend = LocalBackend.load(
                verifier, drafter, dtype=arguments.dtype, vocab_map="auto", progress=progress
            )
        row: dict[str, Any] = {"verifier": verifier, "drafter": drafter, "asymspec": decoded(backend, asked)}
        row["cross_family"] = backend.capabilities.cross_family
        if backend.capabilities.cross_family:
            ways = compared(backend, asked)
            row["drafting"] = [{**asdict(way), "tokens_a_block": way.tokens_a_block} for way in ways]
        rows.append(row)
        print(f"{verifier} ← {drafter}")
        found = row["asymspec"]
        print(
            f"  asymspec: {found['accepted'] / max(1, found['drafted']):.2f} of the drafts accepted, "
            f"{found['emitted'] / max(1, found['blocks']):.2f} tokens a block, "
            f"{found['respelled'] / max(1, found['emitted']):.3f} of the tokens respelled, "
            f"{found['seconds']:.1f} s",
            flush=True,
        )
        for way in row.get("drafting", []):
            print(
                f"  lossless, {way['way']} drafts: {way['tokens_a_block']:.2f} tokens a block, "
                f"{way['accepted']} of {way['tokens']} tokens drafted right",
                flush=True,
            )
    facts = {"num_threads": torch.get_num_threads(), "num_prompts": len(asked), "num_runs": 1}
    result = {"provenance": provenance("torch", "transformers", **facts), "pairs": rows}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
