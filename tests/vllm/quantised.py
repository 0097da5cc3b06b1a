"""A checkpoint with int8 weights, in the format of compressed-tensors that vLLM's CPU kernels read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

__all__ = ["int8_copy"]

WEIGHTS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
ACTIVATIONS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}


def int8_copy(model: Path, folder: Path) -> Path:
    """A copy of a model's folder whose linear layers, the head aside, have one int8 scale a channel."""
    shutil.copytree(model, folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        scale = tensors[name].abs().amax(dim=1, keepdim=True) / 127  # [channels, 1]
        tensors[name] = (tensors[name] / scale).round().to(torch.int8)
        tensors[name + "_scale"] = scale
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": ACTIVATIONS}
        },
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder
