"""What each family of vision-language models makes of an image: pixels, tokens in the prompt, features.

Sources: transformers' models and processors `qwen2_vl`, `qwen2_5_vl`, `qwen3_vl`, `idefics3`, `smolvlm` and
`llava`. A family is here when its tests compare it with transformers' own forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ...errors import IncompatibleModelsError

__all__ = ["KINDS", "Features", "Kind", "Stand", "kind_of"]

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Features:
    """A tower's output for one image: embeddings `rows` [n, width]; `inner` is added behind layers 0, 1, …"""

    rows: Tensor
    inner: tuple[Tensor, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.numel() * t.element_size() for t in (self.rows, *self.inner))


@dataclass(frozen=True, slots=True)
class Stand:
    """What stands for an image: `text` with the image token for each row of features.

    `grid`: rows and columns of them, for models whose positions have them.
    """

    text: str
    grid: tuple[int, int] | None = None


class Kind(ABC):
    """One family. Raises IncompatibleModelsError where the tokenizer lacks the family's tokens."""

    has_grid_positions = False

    def __init__(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.image_token_id = int(config.image_token_id)
        self.image_token = self._token(tokenizer, self.image_token_id)

    @property
    def placeholder(self) -> str:
        """What a chat template writes for an image."""
        return self.image_token

    @property
    def control_names(self) -> tuple[str, ...]:
        """Tokens that only the template and this module write, never somebody's text."""
        return (self.image_token,)

    @abstractmethod
    def inputs(self, processor: Any, image: Any) -> Inputs:
        """What the tower reads of an RGB image. Raises ValueError for an image the processor refuses."""

    @abstractmethod
    def stand(self, inputs: Inputs) -> Stand:
        """What stands for the image in the prompt."""

    @abstractmethod
    def features(self, module: Any, inputs: Inputs) -> Features:
        """What the tower of the model `module` makes of it."""

    @staticmethod
    def _token(tokenizer: PreTrainedTokenizerBase, token_id: int) -> str:
        token = tokenizer.convert_ids_to_tokens(token_id) if token_id < len(tokenizer) else None
        if not isinstance(token, str):
            raise IncompatibleModelsError(f"the drafter's tokenizer has no image token {token_id}")
        return token


class QwenVL(Kind):
    """Qwen2-VL, Qwen2.5-VL, Qwen3-VL: as many rows as the image is large, at positions of a grid (M-RoPE).

    Qwen3-VL's tower also gives features that are added between the first layers (arXiv 2406.04334).
    """

    has_grid_positions = True

    def __init__(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(config, tokenizer)
        self._around = tuple(
            self._token(tokenizer, int(token_id))
            for token_id in (config.vision_start_token_id, config.vision_end_token_id)
        )
        self._merge_size = int(config.vision_config.spatial_merge_size)

    @property
    def placeholder(self) -> str:
        start, end = self._around
        return f"{start}{self.image_token}{end}"

    @property
    def control_names(self) -> tuple[str, ...]:
        return (self.image_token, *self._around)

    def inputs(self, processor: Any, image: Any) -> Inputs:
        made = processor(images=[image], return_tensors="pt")
        return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}

    def stand(self, inputs: Inputs) -> Stand:
        _, height, width = (int(n) for n in inputs["image_grid_thw"][0])
        grid = (height // self._merge_size, width // self._merge_size)
        return Stand(self.image_token * (grid[0] * grid[1]), grid)

    def features(self, module: Any, inputs: Inputs) -> Features:
        output = module.model.get_image_features(
            inputs["pixel_values"], inputs["image_grid_thw"], return_dict=True
        )
        inner = getattr(output, "deepstack_features", None) or ()
        return Features(_rows(output.pooler_output), tuple(_rows(layer) for layer in inner))


class Idefics3(Kind):
    """Idefics3 and SmolVLM: tiles of a fixed number of rows, each after its place, then the whole image."""

    _FAKE, _GLOBAL = "<fake_token_around_image>", "<global-img>"

    def __init__(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(config, tokenizer)
        tower = config.vision_config
        self._tile_rows = int((tower.image_size // tower.patch_size) ** 2 / config.scale_factor**2)

    @property
    def control_names(self) -> tuple[str, ...]:
        places = (f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
        return (self.image_token, self._FAKE, self._GLOBAL, *places)

    def inputs(self, processor: Any, image: Any) -> Inputs:
        made = processor(images=[[image]], return_row_col_info=True, return_tensors="pt")
        tiles = torch.tensor([[made[name][0][0] for name in ("rows", "cols")]])  # [1, 2]
        inputs = {"pixel_values": made["pixel_values"], "tiles": tiles}
        if "pixel_attention_mask" in made:
            inputs["pixel_attention_mask"] = made["pixel_attention_mask"]
        return inputs

    def stand(self, inputs: Inputs) -> Stand:
        num_rows, num_columns = (int(n) for n in inputs["tiles"][0])
        tile = self.image_token * self._tile_rows
        whole = f"{self._FAKE}{self._GLOBAL}{tile}{self._FAKE}"
        if num_rows == 0 and num_columns == 0:
            return Stand(whole)
        lines = (
            "".join(f"{self._FAKE}<row_{row}_col_{column}>{tile}" for column in range(1, num_columns + 1))
            for row in range(1, num_rows + 1)
        )
        return Stand("\n".join(lines) + f"\n\n{whole}")

    def features(self, module: Any, inputs: Inputs) -> Features:
        output = module.model.get_image_features(
            pixel_values=inputs["pixel_values"],
            pixel_attention_mask=inputs.get("pixel_attention_mask"),
            return_dict=True,
        )
        return Features(output.pooler_output.flatten(0, 1))  # [tiles, rows, width] in the tiles' order


class Llava(Kind):
    """LLaVA with a CLIP or SigLIP tower: the same number of rows for every image."""

    _TOWERS: Mapping[str, int] = {"clip_vision_model": 1, "siglip_vision_model": 0}  # and its class tokens

    def __init__(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(config, tokenizer)
        tower = config.vision_config
        if tower.model_type not in self._TOWERS:
            raise IncompatibleModelsError(
                f"a LLaVA model with the tower {tower.model_type} is not supported; towers: "
                f"{', '.join(self._TOWERS)}"
            )
        self._patch_size = int(tower.patch_size)
        drops_first = config.vision_feature_select_strategy == "default"
        self._num_more = self._TOWERS[tower.model_type] - drops_first

    def inputs(self, processor: Any, image: Any) -> Inputs:
        return {"pixel_values": processor(images=[image], return_tensors="pt")["pixel_values"]}

    def stand(self, inputs: Inputs) -> Stand:
        height, width = inputs["pixel_values"].shape[-2:]
        num_patches = (height // self._patch_size) * (width // self._patch_size)
        return Stand(self.image_token * (num_patches + self._num_more))

    def features(self, module: Any, inputs: Inputs) -> Features:
        output = module.model.get_image_features(pixel_values=inputs["pixel_values"], return_dict=True)
        return Features(_rows(output.pooler_output))


KINDS: Mapping[str, type[Kind]] = {
    "qwen2_vl": QwenVL,
    "qwen2_5_vl": QwenVL,
    "qwen3_vl": QwenVL,
    "idefics3": Idefics3,
    "smolvlm": Idefics3,
    "llava": Llava,
}


def kind_of(config: Any, tokenizer: PreTrainedTokenizerBase) -> Kind:
    """The family of a configuration; raises IncompatibleModelsError for one that is not in KINDS."""
    if config.model_type not in KINDS:
        raise IncompatibleModelsError(
            f"models of type {config.model_type} are not supported as drafters that see; supported: "
            f"{', '.join(KINDS)}"
        )
    return KINDS[config.model_type](config, tokenizer)


def _rows(features: Any) -> Tensor:
    """The rows of one image, [n, width], which releases of transformers give in a list or whole."""
    whole = torch.cat(list(features), dim=0) if isinstance(features, list | tuple) else features
    return whole.reshape(-1, whole.shape[-1])
