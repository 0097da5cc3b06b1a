"""What a drafter that sees may be given to look at, as vLLM's configuration says it."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .config import PluginConfig

__all__ = [
    "as_if_text_only",
    "features_of",
    "image_processor",
    "largest_image",
    "sees_images",
    "with_limits",
]

IMAGE = "image"
OTHERS = ("audio", "video")


def sees_images(vllm_config: Any) -> bool:
    """Whether the drafter of that configuration has a vision tower."""
    return bool(vllm_config.speculative_config.draft_model_config.is_multimodal_model)


def with_limits(model: Any, config: PluginConfig) -> Any:
    """A copy of the drafter's model configuration with the plugin's limits; it takes nothing but images.

    Memory is measured with an image of `max_image_pixels`, which the drafter's processor may scale down. In
    a template that takes texts only, images are marked where they stand.
    """
    from vllm.config import replace

    side = math.isqrt(config.max_image_pixels)
    limits: dict[str, Any] = dict.fromkeys(OTHERS, 0)
    limits[IMAGE] = {"count": config.max_images, "width": side, "height": side}
    limited = copy.copy(model)
    limited.multimodal_config = replace(
        model.multimodal_config, limit_per_prompt=limits, interleave_mm_strings=True
    )
    return limited


def image_processor(model: Any) -> Any:
    """vLLM's processor for the drafter's images. Raises ConfigurationError where there is none."""
    from vllm.multimodal import MULTIMODAL_REGISTRY

    try:
        processor = MULTIMODAL_REGISTRY.create_processor(model)
        processor.info.get_hf_processor()  # which vLLM would make with the first image
        supported = processor.info.get_supported_mm_limits()
    except Exception as error:  # whatever somebody's processor raises
        raise ConfigurationError(
            f"the drafter {model.model} sees images, but its processor can't be made: {error}. Its folder "
            "needs processor_config.json or preprocessor_config.json, and what these name must be installed"
        ) from error
    if IMAGE not in supported:
        raise ConfigurationError(
            f"the drafter {model.model} takes {', '.join(supported) or 'nothing'} beside text, but no images"
        )
    return processor


def features_of(prompt: Mapping[str, Any]) -> list[Any]:
    """The images of a prompt that vLLM's renderer or processor made, in its order (see images.py)."""
    from vllm.multimodal.inputs import MultiModalFeatureSpec

    features = [
        MultiModalFeatureSpec(data=data, modality=modality, identifier=name, mm_position=place, mm_hash=name)
        for modality, places in prompt["mm_placeholders"].items()
        for data, name, place in zip(
            prompt["mm_kwargs"][modality], prompt["mm_hashes"][modality], places, strict=True
        )
    ]
    return sorted(features, key=lambda feature: feature.mm_position.offset)


def largest_image(model: Any) -> list[Any]:
    """The image for which the tower needs most, of a model configuration `with_limits`."""
    return features_of(image_processor(model).get_dummy_mm_inputs({IMAGE: 1}))


@contextlib.contextmanager
def as_if_text_only(vllm_config: Any) -> Iterator[None]:
    """Within, the drafter's positions look like those of text.

    vLLM's first model runner makes a drafter of its own before it gets ours in its place, and that one
    refuses positions of several dimensions.
    """
    speculative = vllm_config.speculative_config
    drafter = speculative.draft_model_config
    if drafter.uses_mrope:
        text = copy.deepcopy(drafter.hf_text_config)
        text.rope_parameters = {
            name: value for name, value in text.rope_parameters.items() if name != "mrope_section"
        }
        speculative.draft_model_config = copy.copy(drafter)
        speculative.draft_model_config.hf_config = text
    try:
        yield
    finally:
        speculative.draft_model_config = drafter
