"""From a folder to a drafter that sees, with its image processor and its chat template."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageTextToText,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from ...errors import IncompatibleModelsError, MissingDependencyError, WeightsError
from ..chat import ChatTemplate
from ..model import load_module
from .kinds import KINDS, kind_of
from .looking import Looker
from .model import SeeingModel
from .options import VisionOptions
from .prompt import SeeingPrompts
from .template import seeing_template

__all__ = ["SeeingDrafter", "is_seeing", "load_seeing"]

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
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise WeightsError(f"cannot load a model from {folder}: {error}") from error
    if config.model_type in KINDS:
        return True
    reads_text_alone = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and not reads_text_alone:
        raise IncompatibleModelsError(
            f"{name} is a vision-language model of type {config.model_type}; drafters that see may be of "
            f"type {', '.join(KINDS)}"
        )
    return False


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

    Raises WeightsError where the folder lacks weights or an image processor, IncompatibleModelsError where
    model, processor and tokenizer do not fit, MissingDependencyError without Pillow.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingDependencyError("pillow", "images") from error
    try:
        auto: Any = AutoImageProcessor  # whose types are half there
        processor = auto.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise WeightsError(
            f"{folder} has no image processor that can be used here (preprocessor_config.json): {error}"
        ) from error
    module = load_module(folder, AutoModelForImageTextToText, name=name, dtype=dtype, device=device)
    looker = Looker(kind_of(module.config, tokenizer), processor, tokenizer, options)
    model = SeeingModel(module, name, looker)
    try:
        model.try_tower(looker.processed(PIL.Image.new("RGB", PROBE_SIZE, "white")))
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
