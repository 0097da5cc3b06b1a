"""From two model folders to a ready engine and the chat template both views go through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..errors import IncompatibleModelsError, WeightsError
from ..recording import NULL_RECORDER, Recorder
from .chat import ChatTemplate
from .engine import Engine, EngineOptions
from .model import CausalModel, load_model
from .vision.load import is_seeing, load_seeing
from .vision.prompt import SeeingPrompts

__all__ = ["LoadedPair", "load_pair", "load_tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """An engine over two loaded models, and how it reads chats; `seeing`: how a drafter that sees does."""

    engine: Engine
    template: ChatTemplate
    seeing: SeeingPrompts | None = None


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

    A drafter that sees images may have further tokens behind the verifier's vocabulary. Raises
    IncompatibleModelsError unless both tokenizers have the same vocabulary otherwise, WeightsError for
    folders that hold no model.
    """
    tokenizer = load_tokenizer(verifier)
    names = (verifier_name or Path(verifier).name, drafter_name or Path(drafter).name)
    if is_seeing(verifier, names[0]):
        raise IncompatibleModelsError(
            f"{names[0]} is a vision-language model; a verifier reads texts only: choose the text model of "
            "its family"
        )
    if is_seeing(drafter, names[1]):
        large = load_model(verifier, name=verifier_name, dtype=dtype, device=device)
        return _seeing_pair(large, tokenizer, drafter, names, dtype, device, options, recorder)
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


def _seeing_pair(
    verifier: CausalModel,
    tokenizer: PreTrainedTokenizerBase,
    drafter: Path | str,
    names: tuple[str, str],
    dtype: str,
    device: str | None,
    options: EngineOptions | None,
    recorder: Recorder,
) -> LoadedPair:
    """The pair with a drafter that sees, whose vocabulary begins with the verifier's."""
    own = load_tokenizer(drafter)
    words, own_words = tokenizer.get_vocab(), own.get_vocab()
    differs = next((word for word, token_id in words.items() if own_words.get(word) != token_id), None)
    if differs is not None:
        raise IncompatibleModelsError(
            f"{names[0]} and {names[1]} have different vocabularies (token {differs!r}, for one); choose a "
            "drafter that was made of a model of the verifier's own family"
        )
    template = ChatTemplate(tokenizer)
    limits = (options or EngineOptions()).vision
    small = load_seeing(drafter, own, template, name=names[1], dtype=dtype, device=device, options=limits)
    vocab_size = max(words.values()) + 1
    end = tokenizer.eos_token_id
    if isinstance(end, int):
        small.model.end_with(end, vocab_size)
    engine = Engine(verifier, small.model, tokenizer, vocab_size, options=options, recorder=recorder)
    return LoadedPair(engine, template, small.prompts)


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder; raises WeightsError where there is none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise WeightsError(f"cannot load a tokenizer from {folder}: {error}") from error
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):  # made up where files are missing
        raise WeightsError(f"cannot load a tokenizer from {folder}: its files are missing")
    return tokenizer
