"""Tiny GGUF files of the families that can be converted, for tests."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

MERGES = ("Ġ t", "h e", "Ġt he", "1 2")
CHAT_TEMPLATE = "{%- for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{%- endfor %}"
QWEN2_ADDED = (
    ("<|endoftext|>", 3),
    ("<|im_start|>", 3),
    ("<|im_end|>", 3),
    ("<tool_call>", 4),
    ("</tool_call>", 4),
    ("<|fim_prefix|>", 3),
    ("[PAD0]", 5),
    ("[PAD1]", 5),
)
SMOLLM_ADDED = (("<|endoftext|>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3), ("<repo_name>", 3))
_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def tokens(pre: str) -> list[tuple[str, int]]:
    """Every token of a tiny vocabulary with its GGUF type, in id order."""
    ordinary = [
        (token, 1) for token in (*sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in MERGES))
    ]
    return [*ordinary, *QWEN2_ADDED] if pre == "qwen2" else [*SMOLLM_ADDED, *ordinary]


def tiny_model(pre: str) -> PreTrainedModel:
    """A random two-layer model whose weights are exact in bfloat16."""
    torch.manual_seed(7)
    sizes = {
        "vocab_size": len(tokens(pre)),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    }
    if pre == "qwen2":
        model: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**sizes, rope_theta=1e6, rms_norm_eps=1e-6))
    else:
        model = LlamaForCausalLM(LlamaConfig(**sizes, rope_theta=1e5, rms_norm_eps=1e-5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
            parameter.copy_(parameter.to(torch.bfloat16).float())
    return model.eval()


def write_gguf(path: Path, pre: str, model: PreTrainedModel, *, chat_template: str = CHAT_TEMPLATE) -> None:
    """Writes `model` as the presets' files are written: embeddings and output apart for qwen2, the embeddings
    coarser; query and key rows interleaved for smollm."""
    config = model.config
    writer = gguf.GGUFWriter(path, "qwen2" if pre == "qwen2" else "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([token for token, _ in tokens(pre)])
    writer.add_token_types([kind for _, kind in tokens(pre)])
    writer.add_token_merges(list(MERGES))
    writer.add_chat_template(chat_template)
    for name, parameter in model.named_parameters():
        values: npt.NDArray[np.float32] = parameter.detach().numpy()
        stem, kind = name.removeprefix("model.").rsplit(".", 1)
        block = ""
        if stem.startswith("layers."):
            _, layer, stem = stem.split(".", 2)
            block = f"blk.{layer}."
        if pre == "smollm" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape).copy()
        if pre == "qwen2" and stem == "embed_tokens":
            writer.add_tensor("output.weight", values)
            coarse = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor("token_embd.weight", coarse, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(f"{block}{_NAMES[stem]}.{kind}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
