"""Tiny random vision-language models of each supported family, with a text-only verifier of their vocabulary.

All have the byte-level tokenizer of the other tests and the family's control tokens behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CLIPVisionConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    SiglipVisionConfig,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from tests.engine.tiny_folder import CHAT_TEMPLATE, SPECIAL

__all__ = ["FAMILIES", "TEMPLATE", "family_folder", "save_seeing_pair", "tokenizer_of"]

VISION_NAMES = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<fake_token_around_image>",
    "<image>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)),
)
# What follows the content's parts in the order given, as the templates of vision-language models do.
TEMPLATE = CHAT_TEMPLATE.replace(
    '{{ message.content if message.content is not none else "" }}',
    """{%- if message.content is string -%}{{ message.content }}{%- elif message.content is not none -%}
{%- for part in message.content -%}
{%- if part.type == "image" -%}IMAGE{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}""",
)
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
NUM_WORDS = 256 + len(SPECIAL)
VOCAB = 288  # padded
ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1]}
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "idefics3", "smolvlm", "llava", "llava_siglip")


@functools.cache
def tokenizer_of(family: str | None) -> PreTrainedTokenizerFast:
    """The family's tokenizer and template; None: the verifier's, which knows no images."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = SPECIAL if family is None else (*SPECIAL, *VISION_NAMES)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in names])
    image = "<|vision_start|><|image_pad|><|vision_end|>" if "qwen" in (family or "") else "<image>"
    template = CHAT_TEMPLATE if family is None else TEMPLATE.replace("IMAGE", image)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=template)


def _id(name: str) -> int:
    return int(tokenizer_of("any").convert_tokens_to_ids(name))


def _qwen2_vl() -> PreTrainedModel:
    config = Qwen2VLConfig(
        text_config={**TEXT, "vocab_size": VOCAB, "rope_parameters": ROPE},
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "num_heads": 2,
            "hidden_size": 32,
            "mlp_ratio": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        **_qwen_ids(),
    )
    return Qwen2VLForConditionalGeneration(config)


def _qwen2_5_vl() -> PreTrainedModel:
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, "vocab_size": VOCAB, "rope_parameters": ROPE},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "out_hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(),
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def _qwen3_vl() -> PreTrainedModel:
    config = Qwen3VLConfig(
        text_config={**TEXT, "head_dim": 8, "vocab_size": VOCAB, "rope_parameters": ROPE},
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "out_hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        **_qwen_ids(),
    )
    return Qwen3VLForConditionalGeneration(config)


def _qwen_ids() -> dict[str, Any]:
    return {
        "image_token_id": _id("<|image_pad|>"),
        "video_token_id": _id("<|video_pad|>"),
        "vision_start_token_id": _id("<|vision_start|>"),
        "vision_end_token_id": _id("<|vision_end|>"),
        "tie_word_embeddings": False,
    }


def _tiles(config: type, model: Callable[[Any], PreTrainedModel]) -> Callable[[], PreTrainedModel]:
    def make() -> PreTrainedModel:
        return model(
            config(
                text_config=LlamaConfig(**TEXT, vocab_size=VOCAB),
                vision_config={
                    "hidden_size": 32,
                    "intermediate_size": 48,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "image_size": 16,
                    "patch_size": 4,
                },
                scale_factor=2,
                image_token_id=_id("<image>"),
                pad_token_id=None,
                tie_word_embeddings=False,
            )
        )

    return make


def _llava(tower: type, selects: str) -> Callable[[], PreTrainedModel]:
    def make() -> PreTrainedModel:
        config = LlavaConfig(
            vision_config=tower(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=3,
                num_attention_heads=2,
                image_size=16,
                patch_size=4,
            ),
            text_config=LlamaConfig(**TEXT, vocab_size=VOCAB),
            image_token_id=_id("<image>"),
            vision_feature_select_strategy=selects,
            tie_word_embeddings=False,
        )
        return LlavaForConditionalGeneration(config)

    return make


MAKERS: dict[str, tuple[Callable[[], PreTrainedModel], Callable[[], Any]]] = {
    "qwen2_vl": (_qwen2_vl, lambda: _qwen_processor()),
    "qwen2_5_vl": (_qwen2_5_vl, lambda: _qwen_processor()),
    "qwen3_vl": (_qwen3_vl, lambda: _qwen_processor()),
    "idefics3": (
        _tiles(Idefics3Config, Idefics3ForConditionalGeneration),
        lambda: Idefics3ImageProcessorPil(**_TILED),
    ),
    "smolvlm": (
        _tiles(SmolVLMConfig, SmolVLMForConditionalGeneration),
        lambda: SmolVLMImageProcessorPil(**_TILED),
    ),
    "llava": (
        _llava(CLIPVisionConfig, "default"),
        lambda: CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=16),
    ),
    "llava_siglip": (
        _llava(SiglipVisionConfig, "full"),
        lambda: SiglipImageProcessorPil(size={"height": 16, "width": 16}),
    ),
}
_TILED = {"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 16}}


def _qwen_processor() -> Any:
    return Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, size={"shortest_edge": 8 * 8, "longest_edge": 48 * 48}
    )


def _opinionated(module: PreTrainedModel) -> PreTrainedModel:
    """Random initial logits are nearly uniform; scaled, the model has opinions."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.ndim > 1:
                weight.mul_(4.0 if "embed" not in name else 1.0)
        module.get_output_embeddings().weight.mul_(2.0)
    return module.float().eval()


def family_folder(folder: Path, family: str, seed: int = 0) -> Path:
    """A folder with a tiny drafter of the family, its image processor and its tokenizer."""
    torch.manual_seed(seed)
    module, processor = (make() for make in MAKERS[family])
    _opinionated(module).save_pretrained(folder)
    processor.save_pretrained(folder)
    tokenizer_of(family).save_pretrained(folder)
    return folder


def save_seeing_pair(folder: Path, family: str) -> tuple[Path, Path]:
    """Folders of a text-only verifier and of a drafter of the family that sees."""
    torch.manual_seed(7)
    verifier = _opinionated(LlamaForCausalLM(LlamaConfig(**TEXT, vocab_size=VOCAB)))
    verifier.save_pretrained(folder / "verifier")
    tokenizer_of(None).save_pretrained(folder / "verifier")
    return folder / "verifier", family_folder(folder / "drafter", family)
