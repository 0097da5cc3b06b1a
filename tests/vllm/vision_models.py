"""Small random pairs whose drafter sees images, saved in folders: a text verifier, a vision-language drafter.

The drafter's text part is the verifier with noise in every weight, as in models.py.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.engine.tiny_folder import CHAT_TEMPLATE, byte_tokenizer, save_model

from .models import DISAGREEMENT, HEAD_SCALE, SHAPE, WEIGHT_SCALE

__all__ = ["KINDS", "NUM_VISION_IDS", "UNIT", "Kind", "save_vision_pair", "vision_tokenizer"]

PATCH, MERGE = 4, 2
UNIT = PATCH * MERGE  # pixels on each side that one token of Qwen's stands for
TILE, TILE_PATCH = 32, 8
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
QWEN = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
IDEFICS = ("<fake_token_around_image>", "<global-img>", "<image>", "<end_of_utterance>")
PIECES = QWEN + IDEFICS
NUM_VISION_IDS = 256 + 2 + len(PIECES) + 1
IMAGE_PARTS = """\
{%- if message.content is string %}{{ message.content }}{% else -%}
{%- for part in message.content -%}
{%- if part.type in ["image", "image_url"] -%}IMAGE{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}
{%- endif -%}
"""


def vision_tokenizer() -> PreTrainedTokenizerFast:
    """Of verifier and drafter, with the tokens that frame and stand for images."""
    return byte_tokenizer(PIECES)


def _ids(names: Sequence[str]) -> list[int]:
    return list(vision_tokenizer().convert_tokens_to_ids(list(names)))


@dataclass(frozen=True)
class Looked:
    """What a processor makes of images: the tokens that show each, and what the model's forward takes."""

    tokens: list[list[int]]
    pixels: dict[str, Any]


class Kind(ABC):
    """A kind of drafter. `mark`: how its template writes an image."""

    name: str
    mark: tuple[str, ...]

    @property
    def template(self) -> str:
        """The chat template: that of all tiny models, which here shows images too."""
        written = '{{ message.content if message.content is not none else "" }}'
        assert written in CHAT_TEMPLATE
        return CHAT_TEMPLATE.replace(written, IMAGE_PARTS.replace("IMAGE", "".join(self.mark)))

    @abstractmethod
    def configs(self) -> tuple[Any, Any]:
        """Of verifier and drafter."""

    @abstractmethod
    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        """The drafter's."""

    def look(self, images: Sequence[Image.Image]) -> Looked:
        """What the drafter's processor makes of them."""
        processor = self.processor(vision_tokenizer())
        text = "".join(self.mark)
        tokens = [list(processor(text=[text], images=[image])["input_ids"][0]) for image in images]
        inputs = dict(processor(text=[text * len(images)], images=list(images), return_tensors="pt"))
        for name in ("input_ids", "attention_mask", "mm_token_type_ids"):
            inputs.pop(name, None)
        return Looked(tokens, inputs)

    def marks(self, ids: Tensor) -> dict[str, Tensor]:
        """What the forward has to be told of the ids."""
        return {}

    def published(self, name: str) -> str:
        """A weight's name in published models, which vLLM reads; transformers may have another by now."""
        return name

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
            mine = _text_weights(drafter)
            for name, theirs in verifier.named_parameters():
                mine[name].mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
        return verifier.float().eval(), drafter.float().eval()


def _text_weights(module: PreTrainedModel) -> dict[str, Tensor]:
    """The weights of a drafter's text part, by their names in a text model."""
    return {
        name.replace("model.language_model.", "model.").replace("model.text_model.", "model."): weight
        for name, weight in module.named_parameters()
    }


class Qwen2VL(Kind):
    """Positions of three dimensions; an image is a grid of tokens between two others."""

    name = "qwen2_vl"
    mark = QWEN[:1] + QWEN[2:3] + QWEN[1:2]

    def configs(self) -> tuple[Any, Any]:
        return transformers.Qwen2Config(**SHAPE, rope_parameters=ROPE), self._drafter()

    def _drafter(self) -> Any:
        text = {**SHAPE, "rope_parameters": {**ROPE, "mrope_section": [4, 6, 6]}}
        vision = {**self._vision(), "embed_dim": 32, "hidden_size": SHAPE["hidden_size"], "mlp_ratio": 2}
        return transformers.Qwen2VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=False, **self._names()
        )

    def _vision(self) -> dict[str, Any]:
        return {"depth": 2, "num_heads": 2, "patch_size": PATCH, "spatial_merge_size": MERGE}

    def _names(self) -> dict[str, int]:
        names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
        return dict(zip(names, _ids(QWEN), strict=True))

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        size = {"shortest_edge": UNIT * UNIT * 4, "longest_edge": UNIT * UNIT * 64}
        settings = {"patch_size": PATCH, "merge_size": MERGE, "size": size}
        return transformers.Qwen2VLProcessor(
            transformers.Qwen2VLImageProcessor(**settings),
            tokenizer,
            transformers.Qwen2VLVideoProcessor(**settings),
            chat_template=self.template,
        )

    def marks(self, ids: Tensor) -> dict[str, Tensor]:
        return {"mm_token_type_ids": (ids == self._names()["image_token_id"]).int()}


class Qwen25VL(Qwen2VL):
    """The same with windows in the tower."""

    name = "qwen2_5_vl"

    def _drafter(self) -> Any:
        text = {**SHAPE, "rope_parameters": {**ROPE, "mrope_section": [4, 6, 6]}}
        vision = {
            **self._vision(),
            "hidden_size": 32,
            "intermediate_size": 64,
            "out_hidden_size": SHAPE["hidden_size"],
            "window_size": 2 * UNIT,
            "fullatt_block_indexes": [1],
        }
        return transformers.Qwen2_5_VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=False, **self._names()
        )

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        other = super().processor(tokenizer)
        return transformers.Qwen2_5_VLProcessor(
            other.image_processor, tokenizer, other.video_processor, chat_template=self.template
        )


class Qwen3VL(Qwen2VL):
    """What the tower sees enters several layers."""

    name = "qwen3_vl"

    def configs(self) -> tuple[Any, Any]:
        shape = {**SHAPE, "head_dim": 32}
        text = {
            **shape,
            "rope_parameters": {**ROPE, "mrope_section": [6, 5, 5], "mrope_interleaved": True},
        }
        vision = {
            **self._vision(),
            "hidden_size": 32,
            "intermediate_size": 64,
            "out_hidden_size": SHAPE["hidden_size"],
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        }
        drafter = transformers.Qwen3VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=False, **self._names()
        )
        return transformers.Qwen3Config(**shape, rope_parameters=ROPE), drafter

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        other = super().processor(tokenizer)
        videos = transformers.Qwen3VLVideoProcessor(
            patch_size=PATCH, merge_size=MERGE, size=other.image_processor.size
        )
        return transformers.Qwen3VLProcessor(
            other.image_processor, tokenizer, videos, chat_template=self.template
        )


class Idefics3(Kind):
    """Plain positions; an image is cut into tiles, with names between their tokens."""

    name = "idefics3"
    mark = ("<image>",)

    def configs(self) -> tuple[Any, Any]:
        vision = {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": TILE,
            "patch_size": TILE_PATCH,
        }
        drafter = transformers.Idefics3Config(
            text_config={**SHAPE, "model_type": "llama", "rope_parameters": ROPE},
            vision_config=vision,
            scale_factor=2,
            image_token_id=_ids(["<image>"])[0],
            pad_token_id=None,
            tie_word_embeddings=False,
        )
        return transformers.LlamaConfig(**SHAPE, rope_parameters=ROPE), drafter

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        images = transformers.Idefics3ImageProcessor(
            size={"longest_edge": 2 * TILE}, max_image_size={"longest_edge": TILE}
        )
        return transformers.Idefics3Processor(
            images,
            tokenizer,
            image_seq_len=(TILE // TILE_PATCH) ** 2 // 4,
            chat_template=self.template,
        )


class Llava(Kind):
    """Plain positions; every image has the same number of tokens."""

    name = "llava"
    mark = ("<image>",)

    def configs(self) -> tuple[Any, Any]:
        vision = {
            "model_type": "clip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": TILE,
            "patch_size": TILE_PATCH,
            "projection_dim": 32,
        }
        drafter = transformers.LlavaConfig(
            text_config={**SHAPE, "model_type": "llama", "rope_parameters": ROPE},
            vision_config=vision,
            image_token_id=_ids(["<image>"])[0],
            tie_word_embeddings=False,
        )
        return transformers.LlamaConfig(**SHAPE, rope_parameters=ROPE), drafter

    def published(self, name: str) -> str:
        return re.sub(r"vision_tower\.(?!vision_model\.)", "vision_tower.vision_model.", name)

    def processor(self, tokenizer: PreTrainedTokenizerFast) -> Any:
        size = {"height": TILE, "width": TILE}
        return transformers.LlavaProcessor(
            transformers.CLIPImageProcessor(size=size, do_center_crop=False),
            tokenizer,
            patch_size=TILE_PATCH,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            image_token="<image>",
            chat_template=self.template,
        )


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Qwen2VL(), Qwen25VL(), Qwen3VL(), Idefics3(), Llava())}


def save_vision_pair(folder: Path, kind: Kind) -> tuple[Path, Path]:
    """Folders of verifier and drafter; the drafter's has its processor, and a template that shows images."""
    verifier, drafter = kind.modules()
    folders = (save_model(folder / "verifier", verifier, vision_tokenizer()), folder / "drafter")
    tokenizer = vision_tokenizer()
    tokenizer.add_tokens(["<|endoftext|>"], special_tokens=True)  # which transformers adds to a Qwen2's
    tokenizer.chat_template = kind.template
    save_model(folders[1], drafter, None)
    file = folders[1] / "model.safetensors"
    weights = {kind.published(name): weight for name, weight in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    kind.processor(tokenizer).save_pretrained(folders[1])
    return folders
