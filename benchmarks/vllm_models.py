"""The models of `benchmarks/vllm.py`: the real pair, or folders without weights, filled at random."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import Qwen3Config

from asymspec_agents.weights import DEFAULT_PAIR, resolve, show_progress
from benchmarks.gpu_models import QWEN3_4B, ModelShape
from benchmarks.passages import long_text

__all__ = ["Texts", "model_folders", "texts"]

DRAFTER_0_5B = ModelShape("0.5B", 896, 4864, 24, 14, 2, tie_word_embeddings=True, head_dim=64)
SHAPES = {
    "small": (
        ModelShape("small", 256, 512, 4, 8, num_key_value_heads=2, head_dim=32, vocab_size=1024),
        ModelShape("smaller", 64, 128, 2, 2, num_key_value_heads=1, head_dim=32, vocab_size=1024),
    ),
    "ratio": (QWEN3_4B, DRAFTER_0_5B),
}
QUESTION = (
    "<|im_end|>\n<|im_start|>user\nTell the story of these passages.<|im_end|>\n<|im_start|>assistant\n"
)
CHARS_PER_TOKEN = 6  # more than a token has in these passages, so the text is long enough


@dataclass(frozen=True, slots=True)
class Texts:
    """Token ids: a long text, and what a prompt ends with."""

    text: list[int]
    question: list[int]


def model_folders(plan: str, scratch: Path) -> tuple[Path, Path]:
    """Folders of verifier and drafter; those without weights are made in `scratch`."""
    if plan not in SHAPES:
        with show_progress() as progress:
            names = (DEFAULT_PAIR.verifier, DEFAULT_PAIR.drafter)
            verifier, drafter = (resolve(name, progress=progress).path for name in names)
            return verifier, drafter
    verifier_shape, drafter_shape = SHAPES[plan]
    return _save(verifier_shape.config(), scratch / "verifier"), _save(
        drafter_shape.config(), scratch / "drafter"
    )


def _save(config: Qwen3Config, folder: Path) -> Path:
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(folder)
    return folder


def texts(plan: str, verifier: Path, num_tokens: int) -> Texts:
    """Passages and a question about them in the real pair's tokens; any numbers for random models."""
    if plan in SHAPES:
        return Texts([7 + 31 * place % 997 for place in range(num_tokens)], [])
    from asymspec_agents.engine.load import load_tokenizer

    tokenizer = load_tokenizer(verifier)
    text: list[int] = tokenizer.encode(long_text(CHARS_PER_TOKEN * num_tokens), add_special_tokens=False)
    return Texts(text[:num_tokens], tokenizer.encode(QUESTION, add_special_tokens=False))
