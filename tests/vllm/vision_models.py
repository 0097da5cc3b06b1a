"""Small random pairs whose drafter sees images, saved in folders: a text verifier, a vision-language drafter.

The drafter's text part is the verifier with noise in every weight, as in models.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tests.engine.tiny_folder import byte_tokenizer, save_model

from .models import DISAGREEMENT, HEAD_SCALE, MAX_POSITIONS, SHAPE, VOCAB, WEIGHT_SCALE

__all__ = ["KINDS", "NUM_VISION_IDS", "UNIT", "save_vision_pair", "vision_modules", "vision_tokenizer"]

KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
PATCH, MERGE = 4, 2
UNIT = PATCH * MERGE  # pixels on each side that one token stands for
PIECES = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEXT_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]}
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


def vision_tokenizer() -> PreTrainedTokenizerFast:
    """The verifier's tokenizer, with the tokens that frame and stand for images."""
    return byte_tokenizer(PIECES)


NUM_VISION_IDS = 256 + 2 + len(PIECES) + 1


def _ids() -> dict[str, int]:
    tokenizer = vision_tokenizer()
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(list(PIECES)), strict=True))


def _text(**further: Any) -> dict[str, Any]:
    return {**SHAPE, **further}


def _config(kind: str) -> Any:
    """The drafter's configuration."""
    import transformers

    text = _text(rope_parameters=dict(TEXT_ROPE))
    if kind == "qwen2_vl":
        vision: dict[str, Any] = {
            "depth": 2, "embed_dim": 32, "num_heads": 2, "hidden_size": SHAPE["hidden_size"],
            "patch_size": PATCH, "spatial_merge_size": MERGE, "mlp_ratio": 2,
        }  # fmt: skip
        config: Any = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **_ids())
    else:
        raise ValueError(kind)
    config.tie_word_embeddings = False
    return config


def vision_modules(kind: str) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Verifier and drafter, in fp32."""
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(0)
    verifier = Qwen2ForCausalLM(Qwen2Config(**SHAPE))
    torch.manual_seed(1)
    drafter = AutoModelForImageTextToText.from_config(_config(kind))
    with torch.no_grad():
        for module in (verifier, drafter):
            for weight in module.parameters():
                if weight.ndim > 1:
                    weight.mul_(WEIGHT_SCALE)
            module.get_output_embeddings().weight.mul_(HEAD_SCALE / WEIGHT_SCALE)
        theirs = dict(verifier.named_parameters())
        for name, mine in drafter.named_parameters():
            if "visual" not in name:
                twin = theirs[name.replace("model.language_model.", "model.")]
                mine.mul_(DISAGREEMENT).add_(twin, alpha=1 - DISAGREEMENT)
    return verifier.float().eval(), drafter.float().eval()


def save_vision_pair(folder: Path, kind: str) -> tuple[Path, Path]:
    """Folders of verifier and drafter; the drafter's has its processor, and a template that shows images."""
    verifier, drafter = vision_modules(kind)
    tokenizer = vision_tokenizer()
    folders = (save_model(folder / "verifier", verifier, tokenizer), folder / "drafter")
    tokenizer.chat_template = TEMPLATE
    save_model(folders[1], drafter, tokenizer)
    _processor(kind, tokenizer).save_pretrained(folders[1])
    return folders


def _processor(kind: str, tokenizer: PreTrainedTokenizerFast) -> Any:
    import transformers

    size = {"shortest_edge": UNIT * UNIT * 4, "longest_edge": UNIT * UNIT * 64}
    images = transformers.Qwen2VLImageProcessor(patch_size=PATCH, merge_size=MERGE, size=size)
    videos = transformers.Qwen2VLVideoProcessor(patch_size=PATCH, merge_size=MERGE, size=size)
    return transformers.Qwen2VLProcessor(images, tokenizer, videos, chat_template=TEMPLATE)
