"""What a GPU run leaves behind: the closing table, a JSON file, and where the figures come from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
import transformers

from .gpu_exact import Checked
from .gpu_models import GIB
from .gpu_speed import Measured

__all__ = ["exactness_line", "provenance", "speed_table", "write_json"]

HEADER = (
    "full", "short", "arm", "first token s", "decode tok/s", "total s", "x Ceiling", "x Floor",
    "tok/block", "accepted", "block ms", "bare ms", "peak GiB",
)  # fmt: skip


def exactness_line(checked: Checked) -> str:
    """One setting's result in a line."""
    verdict = "exact" if checked.is_exact else "NOT EXACT"
    greedy = {True: ", equals plain greedy", False: ", DIFFERS FROM PLAIN GREEDY", None: ""}[
        checked.is_greedy
    ]
    return (
        f"{checked.name}: {verdict}{greedy}; {checked.num_tokens} tokens, {checked.num_accepted} accepted, "
        f"{checked.num_refused} refused, {checked.num_close_calls} close calls, "
        f"{checked.num_mismatches} mismatches, logits within {checked.max_logit_error:.1e}"
    )


def speed_table(rows: Sequence[Measured]) -> str:
    """The rows as aligned text; "x Ceiling": how many times faster the whole answer is, prefill included."""
    lines = [HEADER, *(_cells(row, rows) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def _cells(row: Measured, rows: Sequence[Measured]) -> tuple[str, ...]:
    return (
        f"{row.full_tokens:,}",
        f"{row.compressed_tokens:,}",
        row.arm,
        f"{row.time_to_first_token_s:.2f}",
        f"{row.decode_tokens_per_s:.1f}",
        f"{row.total_s:.2f}",
        _speedup(row, rows, "Ceiling"),
        _speedup(row, rows, "Floor"),
        f"{row.num_tokens / row.blocks:.2f}",
        f"{row.accepted / row.drafted:.2f}" if row.drafted else "-",
        f"{row.block_s * 1000:.1f}",
        f"{row.bare_block_s * 1000:.1f}",
        "-" if row.peak_bytes is None else f"{row.peak_bytes / GIB:.1f}",
    )


def _speedup(row: Measured, rows: Sequence[Measured], arm: str) -> str:
    others = [other for other in rows if other.arm == arm and other.full_tokens == row.full_tokens]
    return f"{others[0].total_s / row.total_s:.2f}" if others else "-"


def provenance(device: torch.device, seed: int) -> dict[str, Any]:
    """Command, versions, commit and hardware."""
    hardware: dict[str, Any] = {"cpu": platform.processor() or platform.machine(), "num_cpus": os.cpu_count()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        hardware["gpu"] = properties.name
        hardware["gpu_memory_bytes"] = properties.total_memory
        hardware["gpu_capability"] = f"{properties.major}.{properties.minor}"
    return {
        "argv": sys.argv[1:],
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "seed": seed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
        "hardware": hardware,
    }


def _commit() -> str | None:
    """The commit of this checkout, "-dirty" behind it where files differ; None outside one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def write_json(
    path: Path, source: dict[str, Any], pair: str | None, checked: Sequence[Checked], rows: Sequence[Measured]
) -> None:
    """Replaces `path` by the results so far, in one step."""
    content = {
        "provenance": source,
        "exactness": [{**asdict(one), "is_exact": one.is_exact} for one in checked],
        "pair": pair,
        "speed": [asdict(row) for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
