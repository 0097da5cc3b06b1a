"""From two model folders to a ready engine and the chat template both views go through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..errors import IncompatibleModelsError, WeightsError
from ..recording import NULL_RECORDER, Recorder
from .chat import ChatTemplate
from .engine import Engine, EngineOptions
from .model import load_model

__all__ = ["LoadedPair", "load_pair", "load_tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """An engine over two loaded models, and how it reads chats."""

    engine: Engine
    template: ChatTemplate


def load_pair(
    verifier: Path | str,
    drafter: Path | str,
    *,
    verifier_name: str | None = None,
    drafter_name: str | None = None,
    dtype: str = "bfloat16",
    device: str | None = None,
    options: EngineOptions | None = None,
    recorder: Recorder = NULL_RECORDER,
) -> LoadedPair:
    """Loads both local folders; the same folder twice is loaded once.

    Raises IncompatibleModelsError unless both tokenizers have the same vocabulary, WeightsError for folders
    that hold no model.
    """
    tokenizer = load_tokenizer(verifier)
    same_folder = Path(verifier).resolve() == Path(drafter).resolve()
    if not same_folder and load_tokenizer(drafter).get_vocab() != tokenizer.get_vocab():
        raise IncompatibleModelsError(
            f"{verifier_name or verifier} and {drafter_name or drafter} have different tokenizers; "
            "choose a drafter of the verifier's own family"
        )
    large = load_model(verifier, name=verifier_name, dtype=dtype, device=device)
    small = large if same_folder else load_model(drafter, name=drafter_name, dtype=dtype, device=device)
    vocab_size = max(tokenizer.get_vocab().values()) + 1
    engine = Engine(large, small, tokenizer, vocab_size, options=options, recorder=recorder)
    return LoadedPair(engine, ChatTemplate(tokenizer))


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder; raises WeightsError where there is none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise WeightsError(f"cannot load a tokenizer from {folder}: {error}") from error
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):  # made up where files are missing
        raise WeightsError(f"cannot load a tokenizer from {folder}: its files are missing")
    return tokenizer
