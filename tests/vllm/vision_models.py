"""Small random pairs whose drafter sees images, saved in folders: a text verifier, a vision-language drafter.

The drafter's text part is the verifier with noise in every weight, as in models.py.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.engine.tiny_folder import byte_tokenizer, save_model

from .models import DISAGREEMENT, HEAD_SCALE, SHAPE, WEIGHT_SCALE

__all__ = ["KINDS", "NUM_VISION_IDS", "UNIT", "Kind", "save_vision_pair", "vision_tokenizer"]

PATCH, MERGE = 4, 2
UNIT = PATCH * MERGE  # pixels on each side that one token of Qwen's stands for
START, END, IMAGE, VIDEO = PIECES = (
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
)  # fmt: skip
NUM_VISION_IDS = 256 + 2 + len(PIECES) + 1
TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else -%}
{%- for part in message.content -%}
{%- if part.type in ["image", "image_url"] -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}
{%- endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


@dataclass(frozen=True)
class Looked:
    """What a processor makes of images: the tokens that show each, and what the model's forward takes."""

    tokens: list[list[int]]
    pixels: dict[str, Any]


class Kind(ABC):
    """A kind of drafter."""

    name: str

    @abstractmethod
    def configs(self) -> tuple[Any, Any]:
        """Of verifier and drafter."""

    @abstractmethod
    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        """The drafter's."""

    @abstractmethod
    def look(self, images: Sequence[Image.Image]) -> Looked:
        """What the drafter's processor makes of them."""

    @abstractmethod
    def unexpanded(self, ids: Sequence[int]) -> list[int]:
        """A view as its template writes it: one token for each image."""

    def marks(self, ids: Tensor) -> dict[str, Tensor]:
        """What the forward has to be told of the ids."""
        return {}

    @functools.cache  # noqa: B019  # one object a kind
    def modules(self) -> tuple[PreTrainedModel, PreTrainedModel]:
        """Verifier and drafter, in fp32."""
        configs = self.configs()
        torch.manual_seed(0)
        verifier: Any = transformers.AutoModelForCausalLM.from_config(configs[0])
        torch.manual_seed(1)
        drafter: Any = transformers.AutoModelForImageTextToText.from_config(configs[1])
        with torch.no_grad():
            for module in (verifier, drafter):
                for weight in module.parameters():
                    if weight.ndim > 1:
                        weight.mul_(WEIGHT_SCALE)
                head = module.get_output_embeddings().weight
                head.mul_(HEAD_SCALE / WEIGHT_SCALE)
                head[256:] = 0  # answers of bytes: no token in them stands for an image
            theirs = dict(verifier.named_parameters())
            for name, mine in drafter.named_parameters():
                twin = theirs.get(name.replace("model.language_model.", "model."))
                if twin is not None:
                    mine.mul_(DISAGREEMENT).add_(twin, alpha=1 - DISAGREEMENT)
        return verifier.float().eval(), drafter.float().eval()


class Qwen2VL(Kind):
    """Positions of three dimensions; an image is a grid of tokens between two others."""

    name = "qwen2_vl"

    def configs(self) -> tuple[Any, Any]:
        rope = {"rope_type": "default", "rope_theta": 10_000.0}
        verifier = transformers.Qwen2Config(**SHAPE, rope_parameters=rope)
        vision: dict[str, Any] = {
            "depth": 2,
            "embed_dim": 32,
            "num_heads": 2,
            "hidden_size": SHAPE["hidden_size"],
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "mlp_ratio": 2,
        }
        text = {**SHAPE, "rope_parameters": {**rope, "mrope_section": [4, 6, 6]}}
        drafter = transformers.Qwen2VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=False, **_ids()
        )
        return verifier, drafter

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        size = {"shortest_edge": UNIT * UNIT * 4, "longest_edge": UNIT * UNIT * 64}
        images = transformers.Qwen2VLImageProcessor(patch_size=PATCH, merge_size=MERGE, size=size)
        videos = transformers.Qwen2VLVideoProcessor(patch_size=PATCH, merge_size=MERGE, size=size)
        return transformers.Qwen2VLProcessor(images, tokenizer, videos, chat_template=TEMPLATE)

    def look(self, images: Sequence[Image.Image]) -> Looked:
        prepared = self.processor(vision_tokenizer()).image_processor(images=list(images), return_tensors="pt")
        start, end, image, _ = vision_tokenizer().convert_tokens_to_ids(list(PIECES))
        counts = (prepared["image_grid_thw"].prod(dim=1) // MERGE**2).tolist()
        return Looked([[start, *[image] * count, end] for count in counts], dict(prepared))

    def unexpanded(self, ids: Sequence[int]) -> list[int]:
        image = _ids()["image_token_id"]
        return [token for i, token in enumerate(ids) if token != image or ids[i - 1] != image]

    def marks(self, ids: Tensor) -> dict[str, Tensor]:
        return {"mm_token_type_ids": (ids == _ids()["image_token_id"]).int()}


def _ids() -> dict[str, int]:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, vision_tokenizer().convert_tokens_to_ids(list(PIECES)), strict=True))


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Qwen2VL(),)}


def vision_tokenizer() -> PreTrainedTokenizerFast:
    """Of verifier and drafter, with the tokens that frame and stand for images."""
    return byte_tokenizer(PIECES)


def save_vision_pair(folder: Path, kind: Kind) -> tuple[Path, Path]:
    """Folders of verifier and drafter; the drafter's has its processor, and a template that shows images."""
    verifier, drafter = kind.modules()
    tokenizer = vision_tokenizer()
    folders = (save_model(folder / "verifier", verifier, tokenizer), folder / "drafter")
    tokenizer.chat_template = TEMPLATE
    save_model(folders[1], drafter, tokenizer)
    kind.processor(tokenizer).save_pretrained(folders[1])
    return folders
