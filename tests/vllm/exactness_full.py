"""What must be true on whichever of vLLM's runners and takes long: two ranks, compilation, the real pair."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from asymspec_agents.engine.load import load_pair
from tests.presets import preset_folder

from .engines import Ask, K, check, views
from .exactness import Engines
from .models import save_pair
from .oracle import Oracle, Seen, tiny_oracle

__all__ = ["LongExactness"]

QUESTION = "<|im_end|>\n<|im_start|>user\nWhich code has the red box?<|im_end|>\n<|im_start|>assistant\n"
NOTES = "".join(f"Box {i} has the code {i * 7919 % 1000:03d}-kx. " for i in range(30))
FULL = f"<|im_start|>system\nYou answer from the notes.\n{NOTES}The red box has the code 447-zu.{QUESTION}"
COMPRESSED = f"<|im_start|>system\nYou answer from the notes.\n{NOTES[:60]}...{QUESTION}"


class LongExactness:
    """The tests, for a file that brings the fixture `engines`, which makes an engine."""

    @pytest.mark.parametrize(
        ("threads", "arguments"),
        [
            (
                "0|1",
                {
                    "tensor_parallel_size": 2,
                    "distributed_executor_backend": "mp",
                    "speculative_config": {"draft_tensor_parallel_size": 2},
                },
            ),
            ("nobind", {"enforce_eager": False}),
        ],
        ids=["two-ranks", "compiled"],
    )
    def test_small_pair(
        self,
        engines: Engines,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        threads: str,
        arguments: dict[str, object],
    ) -> None:
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", threads)
        rng = random.Random(1)
        asks = []
        for i in range(12):
            full, compressed = views(rng, rng.randint(1, 400), rng.randint(1, 80))
            mode = ("asymspec", "scaled", "product", "cda_only")[i % 4]
            asks.append(Ask(compressed, full, {"num_draft_tokens": 1 + i % K, "mode": mode}, max_tokens=40))
        pool_bytes = (32 if threads == "nobind" else 16) << 20
        engine = engines(save_pair(tmp_path), {"pool_bytes": pool_bytes, "prefill_tokens": 48}, **arguments)
        try:
            seen = Seen()
            for ask, answer in zip(asks, engine.answer(asks), strict=True):
                check(ask, answer, tiny_oracle("qwen2"), seen)
            seen.check_excuses()
        finally:
            engine.close()

    def test_real_pair(self, engines: Engines) -> None:
        """64 tokens by the default rule and by another, in one batch."""
        folders = preset_folder("qwen2.5-coder-1.5b"), preset_folder("qwen2.5-coder-0.5b")
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folders[0])
        full, compressed = (tokenizer(text)["input_ids"] for text in (FULL, COMPRESSED))
        asks = [
            Ask(compressed, full, {"num_draft_tokens": 2}, max_tokens=64),
            Ask(compressed, full, {"num_draft_tokens": 4, "mode": "scaled"}, max_tokens=64),
        ]
        engine = engines(
            folders, {"pool_bytes": 256 << 20}, kv_cache_memory_bytes=256 << 20, max_model_len=1024
        )
        try:
            answers = engine.answer(asks)
        finally:
            engine.close()
        del engine
        gc.collect()
        models = load_pair(*folders, dtype="float32", device="cpu").engine.models
        oracle = Oracle(models["verifier"].module, models["drafter"].module, len(tokenizer))
        seen = Seen()
        for ask, answer in zip(asks, answers, strict=True):
            check(ask, answer, oracle, seen)
        seen.check_excuses()
        assert seen.num_accepted < seen.num_tokens
