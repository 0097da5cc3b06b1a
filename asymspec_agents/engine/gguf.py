"""Converts a GGUF file to a transformers folder: weights as bfloat16 safetensors, and the tokenizer.

Tensors are expanded one at a time straight from the file, so no second model is held in memory, and the
result is checked against the parameters of the model class before it is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependencyError, WeightsError
from .gguf_family import GGUFFamily, family_of, transformers_config, write_tokenizer

if TYPE_CHECKING:
    import torch

__all__ = ["convert_gguf"]

_TOP_NAMES = {"output_norm": "model.norm", "token_embd": "model.embed_tokens"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_gguf(gguf: Path, folder: Path, *, report: Callable[[int, int], None]) -> None:
    """Writes the transformers folder of `gguf` into `folder` (made if missing).

    `report` receives (bytes read, bytes of all tensors). What is written must not change without a new
    `weights.cache.CONVERTER_VERSION`. Raises WeightsError when the file cannot be read, is not
    of a known family, or does not fill the model exactly.
    """
    try:
        import transformers
        from gguf import GGUFReader
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError as error:
        raise MissingDependencyError(error.name or "gguf", "engine") from error
    try:
        reader = GGUFReader(gguf)
    except (OSError, ValueError, IndexError) as error:
        raise WeightsError(f"{gguf} is not a readable GGUF file: {error}") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    family = family_of(fields)
    config = transformers_config(fields, family, transformers_version=transformers.__version__)
    state = _state_dict(reader.tensors, family, config, report)
    _check_fills_model(state, config)

    folder.mkdir(parents=True, exist_ok=True)
    try:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:  # a full disk, above all
        raise WeightsError(f"the converted weights could not be written: {error}") from error
    write_tokenizer(fields, family, folder)
    _write_json(folder / "config.json", config)
    # safetensors writes files that only their owner can read; a model folder may be shared like any other.
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)
    # Ids and greedy decoding only: sampling defaults kept here would leak into every server reading them.
    ids: dict[str, Any] = {
        name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id") if name in config
    }
    _write_json(folder / "generation_config.json", {**ids, "do_sample": False})


def _state_dict(
    tensors: list[Any], family: GGUFFamily, config: dict[str, Any], report: Callable[[int, int], None]
) -> dict[str, torch.Tensor]:
    import torch
    from gguf import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    embedding = _best_embedding(tensors)
    state: dict[str, torch.Tensor] = {}
    done_bytes, total_bytes = 0, sum(int(tensor.n_bytes) for tensor in tensors)
    for tensor in tensors:
        report(done_bytes, total_bytes)
        done_bytes += int(tensor.n_bytes)
        name, kind = tensor.name.rsplit(".", 1)  # kind: weight or bias
        if name in ("token_embd", "output"):
            if name != embedding:
                continue
            target = _TOP_NAMES["token_embd"]
        else:
            target = _target_name(name)
        values = torch.tensor(dequantize(tensor.data, tensor.tensor_type))  # [out, in] or [out], fp32
        base_name = name.rsplit(".", 1)[-1]
        if family.has_permuted_qk and base_name in heads:
            values = _split_rotary_halves(values, heads[base_name])
        state[f"{target}.{kind}"] = values.to(torch.bfloat16).contiguous()
    report(total_bytes, total_bytes)
    return state


def _best_embedding(tensors: list[Any]) -> str:
    """The tensor to tie input and output embeddings to: the one stored with more bytes a weight."""
    stored = {tensor.name: tensor.n_bytes for tensor in tensors}
    return max(("output", "token_embd"), key=lambda name: stored.get(f"{name}.weight", 0))


def _target_name(name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    prefix, _, rest = name.partition(".")
    layer, _, base_name = rest.partition(".")
    if prefix != "blk" or base_name not in _LAYER_NAMES:
        raise WeightsError(f"the GGUF file has a tensor this model does not: {name}")
    return f"model.layers.{layer}.{_LAYER_NAMES[base_name]}"


def _split_rotary_halves(values: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Query or key rows in transformers' order: per head, all rotary pairs' first halves, then the second."""
    paired = values.reshape(num_heads, -1, 2, *values.shape[1:])  # [heads, head_dim / 2, 2, in]
    return paired.transpose(1, 2).reshape(values.shape)


def _check_fills_model(state: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            AutoConfig.for_model(**{key: value for key, value in config.items() if key != "architectures"})
        )
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if expected != found:
        differing = sorted(
            name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
        )
        raise WeightsError(
            f"the GGUF file does not fill the {config['model_type']} model: {', '.join(differing[:5])}"
            + (f" and {len(differing) - 5} more differ" if len(differing) > 5 else " differ")
        )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
