"""From a folder to a drafter that sees, with its image processor and its chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import AutoImageProcessor, AutoModelForImageTextToText, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from ...errors import IncompatibleModelsError, MissingDependencyError
from ..chat import ChatTemplate
from ..files import read_config, reading
from ..model import load_module
from .kinds import KINDS, kind_of
from .looking import Looker
from .model import SeeingModel
from .options import VisionOptions
from .prompt import SeeingPrompts
from .template import seeing_template

__all__ = ["SeeingDrafter", "check_vocabulary", "is_seeing", "load_looker", "load_seeing", "takes_no_map"]

PROBE_SIZE = (96, 64)


@dataclass(frozen=True, slots=True)
class SeeingDrafter:
    """The model, and what makes its prompts."""

    model: SeeingModel
    prompts: SeeingPrompts


def is_seeing(folder: Path | str, name: str) -> bool:
    """Whether the folder's model is one of KINDS.

    Raises IncompatibleModelsError for a vision-language model of another family that reads no text alone.
    """
    config = read_config(folder)
    if config.model_type in KINDS:
        return True
    reads_text_alone = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and not reads_text_alone:
        raise IncompatibleModelsError(
            f"{name} is a vision-language model of type {config.model_type}; drafters that see may be of "
            f"type {', '.join(KINDS)}"
        )
    return False


def check_vocabulary(verifier: Mapping[str, int], drafter: Mapping[str, int], names: tuple[str, str]) -> None:
    """Raises IncompatibleModelsError unless each token of the verifier is the same in a drafter that sees."""
    differs = [(token_id, word) for word, token_id in verifier.items() if drafter.get(word) != token_id]
    if differs:
        token_id, word = min(differs)
        raise IncompatibleModelsError(
            f"{names[0]} and {names[1]} have different vocabularies (token {word!r}, number {token_id} of "
            "the verifier's, for one), and a drafter that sees images takes no vocabulary map; choose a "
            "drafter that was made of a model of the verifier's own family, or one that reads texts only"
        )


def takes_no_map(name: str) -> IncompatibleModelsError:
    """The error of a drafter that sees and a vocabulary map."""
    return IncompatibleModelsError(
        f"vocab_map: {name} sees images, and such a drafter works without a map only; leave the map out, and "
        "choose a drafter that was made of a model of the verifier's own family"
    )


def load_looker(
    folder: Path | str, tokenizer: PreTrainedTokenizerBase, *, name: str, options: VisionOptions
) -> Looker:
    """How the folder's model is shown images, tried on a blank one; needs no weights.

    Raises WeightsError where the folder lacks an image processor, IncompatibleModelsError where it does not
    fit model and tokenizer, MissingDependencyError without Pillow.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("pillow", "images") from error
    with reading(f"{folder} has no image processor that can be used here (preprocessor_config.json)"):
        auto: Any = AutoImageProcessor  # whose types are half there
        processor = auto.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    with reading(f"cannot load a model from {folder}"):
        kind = kind_of(read_config(folder), tokenizer)
    looker = Looker(kind, processor, tokenizer, options)
    _blank(looker, name)
    return looker


def _blank(looker: Looker, name: str) -> Mapping[str, Tensor]:
    """A blank image, processed."""
    import PIL.Image

    try:
        inputs = looker.processed(PIL.Image.new("RGB", PROBE_SIZE, "white"))
        looker.kind.stand(inputs)
    except Exception as error:  # processors are programs, with settings of the folder
        raise IncompatibleModelsError(f"{name}: its image processor cannot read an image: {error}") from error
    return inputs


def load_seeing(
    folder: Path | str,
    tokenizer: PreTrainedTokenizerBase,
    verifier_template: ChatTemplate,
    *,
    name: str,
    dtype: str,
    device: str | None,
    options: VisionOptions,
) -> SeeingDrafter:
    """The vision-language model of a local folder, its tower tried on a blank image.

    Raises WeightsError where the folder lacks weights, IncompatibleModelsError where model, processor and
    tokenizer do not fit, and what `load_looker` raises.
    """
    looker = load_looker(folder, tokenizer, name=name, options=options)
    module = load_module(folder, AutoModelForImageTextToText, name=name, dtype=dtype, device=device)
    model = SeeingModel(module, name, looker)
    try:
        model.try_tower(_blank(looker, name))
    except (ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise IncompatibleModelsError(f"{name}: its tower cannot read an image: {error}") from error
    template = seeing_template(
        tokenizer, looker.kind, [tokenizer.chat_template, _processor_template(folder)], verifier_template
    )
    return SeeingDrafter(model, SeeingPrompts(template, looker))


def _processor_template(folder: Path | str) -> str | None:
    """The template of older processors, which have it in a file of their own."""
    path = Path(folder) / "chat_template.json"
    try:
        template = json.loads(path.read_text("utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    return template if isinstance(template, str) else None
