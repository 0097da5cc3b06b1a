"""From two model folders to a ready engine and the chat template both views go through."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from ..decoding.spelling import Speller, Vocabulary
from ..decoding.transcript import Transcriber
from ..errors import IncompatibleModelsError, WeightsError
from ..recording import NULL_RECORDER, Recorder
from .chat import ChatTemplate
from .cross_family import CrossFamily, MapChoice, choose_map
from .engine import Engine, EngineOptions
from .files import reading
from .model import CausalModel, load_model
from .vision.load import check_vocabulary, is_seeing, load_seeing, takes_no_map
from .vision.prompt import SeeingPrompts

__all__ = ["LoadedPair", "load_pair", "load_speller", "load_tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """An engine over two loaded models, and how it reads chats.

    `drafter_template`: how the drafter does where it is of another family; `seeing`: where it sees images.
    """

    engine: Engine
    template: ChatTemplate
    drafter_template: ChatTemplate | None = None
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
    vocab_map: MapChoice | None = None,
) -> LoadedPair:
    """Loads both local folders; the same folder twice is loaded once.

    `vocab_map` lets a drafter with another vocabulary take part: a map, the file of one, or "auto", which
    makes one where the vocabularies differ. A drafter that sees images may have further tokens behind the
    verifier's vocabulary, but takes no map. Raises IncompatibleModelsError where vocabularies differ
    otherwise and there is no map or one of others, WeightsError for folders that hold no model.
    """
    tokenizer = load_tokenizer(verifier)
    names = (verifier_name or Path(verifier).name, drafter_name or Path(drafter).name)
    if is_seeing(verifier, names[0]):
        raise IncompatibleModelsError(
            f"{names[0]} is a vision-language model; a verifier reads texts only: choose the text model of "
            "its family"
        )
    if is_seeing(drafter, names[1]):
        if vocab_map not in (None, "auto"):
            raise takes_no_map(names[1])
        large = load_model(verifier, name=verifier_name, dtype=dtype, device=device)
        return _seeing_pair(large, tokenizer, drafter, names, dtype, device, options, recorder)
    same_folder = Path(verifier).resolve() == Path(drafter).resolve()
    own = tokenizer if same_folder else load_tokenizer(drafter)
    is_same = own.get_vocab() == tokenizer.get_vocab()
    if vocab_map is None and not is_same:
        raise IncompatibleModelsError(
            f"{verifier_name or verifier} and {drafter_name or drafter} have different tokenizers; "
            "choose a drafter of the verifier's own family, or let it take part through a vocabulary map "
            '(vocab_map="auto", or the file of one)'
        )
    transcriber = None
    if vocab_map is not None and not (vocab_map == "auto" and is_same):
        vocabulary = _vocabulary(verifier, tokenizer, verifier_name)
        speller = Speller(own, _vocabulary(drafter, own, drafter_name))
        chosen = choose_map(vocab_map, vocabulary, speller.vocabulary)
        transcriber = Transcriber(chosen, vocabulary, speller)
    large = load_model(verifier, name=verifier_name, dtype=dtype, device=device)
    small = large if same_folder else load_model(drafter, name=drafter_name, dtype=dtype, device=device)
    family = None if transcriber is None else CrossFamily.of(transcriber, large, small, own)
    vocab_size = max(tokenizer.get_vocab().values()) + 1
    engine = Engine(large, small, tokenizer, vocab_size, options=options, recorder=recorder, family=family)
    return LoadedPair(engine, ChatTemplate(tokenizer), None if family is None else ChatTemplate(own))


def load_speller(folder: Path | str, *, name: str | None = None) -> Speller:
    """The vocabulary of a local folder and how texts are spelled in it; needs no weights.

    Raises WeightsError where there is no tokenizer, IncompatibleModelsError where it can take no map.
    """
    tokenizer = load_tokenizer(folder)
    return Speller(tokenizer, _vocabulary(folder, tokenizer, name))


def _vocabulary(folder: Path | str, tokenizer: PreTrainedTokenizerBase, name: str | None) -> Vocabulary:
    """The tokenizer's vocabulary, with the ids that the folder's configuration says end an answer."""
    ends: set[int] = set()
    for source in (GenerationConfig, AutoConfig):
        config: Any = None
        with (
            reading(f"cannot load a vocabulary from {folder}: its configuration"),
            contextlib.suppress(OSError, ValueError, KeyError),  # few folders have both, or a known model
        ):
            config = source.from_pretrained(folder, local_files_only=True)
        value = getattr(config, "eos_token_id", None)
        ends.update(value if isinstance(value, list | tuple) else [] if value is None else [value])
    return Vocabulary.of(tokenizer, name=name or Path(folder).name, eos_token_ids=ends)


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
    words = tokenizer.get_vocab()
    check_vocabulary(words, own.get_vocab(), names)
    template = ChatTemplate(tokenizer)
    limits = (options or EngineOptions()).vision
    small = load_seeing(drafter, own, template, name=names[1], dtype=dtype, device=device, options=limits)
    vocab_size = max(words.values()) + 1
    end = tokenizer.eos_token_id
    if isinstance(end, int):
        small.model.end_with(end, vocab_size)
    engine = Engine(verifier, small.model, tokenizer, vocab_size, options=options, recorder=recorder)
    return LoadedPair(engine, template, seeing=small.prompts)


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder; raises WeightsError where there is none."""
    with reading(f"cannot load a tokenizer from {folder}"):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        made_up = not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if made_up:  # where files are missing
        raise WeightsError(f"cannot load a tokenizer from {folder}: its files are missing")
    return tokenizer
