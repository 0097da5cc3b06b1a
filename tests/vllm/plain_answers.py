"""What an engine answers to plain requests, as a process of its own: `python -m … stock|asymspec FOLDER OUT`.

`stock` is vLLM with the same draft model and without the plugin. FOLDER holds the pair, OUT becomes a JSON
object of runs, each a list of answers in the order of `asks`.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from .engines import Ask, K, TinyEngine, views

__all__ = ["NAMES", "main"]

LETTERS = "[a-f]{10}[0-9]{10}"
STOCK = {"worker_cls": "auto", "scheduler_cls": None}
ROOM = {"pool_bytes": 8 << 20, "prefill_tokens": 48, "max_requests": 8}
MAX_TOKENS = 20


def _fields() -> dict[str, dict[str, Any]]:
    """Sampling parameters by name, each of them a way to look into the logits."""
    from vllm.sampling_params import StructuredOutputsParams

    return {
        "plain": {},
        "logprobs": {"logprobs": 3},
        "prompt_logprobs": {"prompt_logprobs": 2},
        "penalties": {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.5},
        "structured": {"structured_outputs": StructuredOutputsParams(regex=LETTERS)},
        "allowed": {"allowed_token_ids": list(range(40, 90)), "logprobs": 1},
        "min_tokens": {"min_tokens": 9, "stop_token_ids": list(range(60))},
        "stop": {"stop_token_ids": list(range(0, 256, 12))},
    }


NAMES = ("plain", "logprobs", "prompt_logprobs", "penalties", "structured", "allowed", "min_tokens", "stop")


def asks() -> list[Ask]:
    """A short and a long prompt of every kind; the long ones take two steps to read."""
    rng = random.Random(11)
    fields = _fields()
    return [
        Ask([rng.randrange(256) for _ in range(length)], sampling=fields[name], max_tokens=MAX_TOKENS)
        for name in NAMES
        for length in (rng.randint(1, 20), rng.randint(70, 120))
    ]


def with_views() -> list[Ask]:
    """AsymSpec requests to stand beside them."""
    rng = random.Random(12)
    modes = ("asymspec", "product", "scaled", "strict", "scd_delta", "asymspec")
    sizes = [(rng.randint(1, 300), rng.randint(1, 80)) for _ in modes]
    return [
        Ask(compressed, full, {"mode": mode, "num_draft_tokens": rng.randint(1, K)}, max_tokens=30)
        for mode, (full, compressed) in zip(modes, (views(rng, *size) for size in sizes), strict=True)
    ]


def run(engine: TinyEngine, plain: list[Ask], others: list[Ask], *, num_aborted: int = 0) -> list[Any]:
    """The plain requests' answers where all of them are asked at once; some of the others end early."""
    names, other_names = [], []
    for index in range(max(len(plain), len(others))):
        other_names += [engine.add(ask) for ask in others[index : index + 1]]
        names += [engine.add(ask) for ask in plain[index : index + 1]]
    told: dict[str, Any] = {}
    num_steps = 0
    while engine.llm.llm_engine.has_unfinished_requests():
        told |= {output.request_id: output for output in engine.llm.llm_engine.step()}
        num_steps += 1
        if num_steps == 12:
            for name in other_names[:num_aborted]:
                engine.abort(name)
    return [_shown(told[name]) for name in names]


def _shown(output: Any) -> dict[str, Any]:
    one = output.outputs[0]
    return {
        "tokens": list(one.token_ids),
        "finish_reason": one.finish_reason,
        "logprobs": _rows(one.logprobs),
        "prompt_logprobs": _rows(output.prompt_logprobs),
        "reports": output.kv_transfer_params,
    }


def _rows(logprobs: Any) -> list[dict[int, tuple[float, int | None]]]:
    return [
        {token: (value.logprob, value.rank) for token, value in (row or {}).items()} for row in logprobs or ()
    ]


def main(kind: str, folder: str, out: str) -> None:
    """Asks everything and writes the answers down."""
    pair = Path(folder) / "verifier", Path(folder) / "drafter"
    engine = TinyEngine(pair, {}, **STOCK) if kind == "stock" else TinyEngine(pair, ROOM)
    plain, others = asks(), with_views()
    runs = {"alone": [run(engine, [ask], [])[0] for ask in plain], "together": run(engine, plain, [])}
    if kind != "stock":
        runs["mixed"] = run(engine, plain, others)
        runs["mixed, some aborted"] = run(engine, plain, [*others, *others], num_aborted=4)
        assert not engine.core.scheduler._views._entries
    engine.close()
    Path(out).write_text(json.dumps(runs), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
