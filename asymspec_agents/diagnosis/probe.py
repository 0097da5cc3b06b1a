"""Tries what is installed in a process of its own: a broken package may hang or end its interpreter.

The process writes one line of JSON when a step begins and one when it ends, so that the step that never
ended is known.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

__all__ = ["Probe", "child", "run_probe"]

_CODE = (
    "import json, sys; path, modules = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from asymspec_agents.diagnosis.probe import child; child(modules, sys.stdout)"
)
_SHAPE = (8_960, 1_536)  # an MLP's weight in the default verifier
_ROWS = 3  # a block of two drafts and the position before them


@dataclass(frozen=True, slots=True)
class Probe:
    """What each step gave: its facts, or `errors` by step.

    `culprit` is the step that ended the process, `ending` how. `unfinished` is the step at work when the time
    was over.
    """

    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    culprit: str | None = None
    ending: str = ""
    unfinished: str | None = None


def run_probe(modules: Sequence[str], timeout_s: float) -> Probe:
    """Imports the modules in a new process, then has torch compute where it is among them."""
    command = [sys.executable, "-c", _CODE, json.dumps([sys.path, list(modules)])]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        steps = _read(error.stdout or b"")
        return replace(steps, unfinished=steps.unfinished or "python")
    except OSError as error:
        return Probe(culprit="python", ending=f"could not be started: {error}")
    steps = _read(done.stdout)
    if steps.unfinished is None and (steps.facts or steps.errors or done.returncode == 0):
        return steps  # how the process ended after its work doesn't matter
    culprit = steps.unfinished or "python"
    return Probe(steps.facts, steps.errors, culprit, _ending(done.returncode))


def child(modules: Sequence[str], out: TextIO) -> None:
    """What the new process does."""

    def step(name: str, work: Callable[[], Mapping[str, Any]]) -> None:
        _write(out, {"begin": name})
        try:
            with contextlib.redirect_stdout(sys.stderr):  # some packages greet
                facts = work()
        except Exception as error:
            _write(out, {"end": name, "error": f"{type(error).__name__}: {error}"})
        else:
            _write(out, {"end": name, "facts": facts})

    for module in modules:
        step(module, lambda name=module: _imported(name))  # type: ignore[misc]
    if "torch" in modules:
        step("compute", _compute)
        step("gpu", _gpu)


def _imported(module: str) -> Mapping[str, Any]:
    imported = importlib.import_module(module)
    if module == "transformers":  # its own parts are imported when first named
        for name in ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"):
            getattr(imported, name)
    return {}


def _compute() -> Mapping[str, Any]:
    """How long the CPU takes for a product of decoding's shape, in both number formats."""
    import torch

    def seconds(dtype: torch.dtype) -> float:
        weight, rows = torch.ones(*_SHAPE, dtype=dtype), torch.ones(_ROWS, _SHAPE[1], dtype=dtype)
        times = []
        for _ in range(8):
            start = time.perf_counter()
            product = torch.nn.functional.linear(rows, weight)
            times.append(time.perf_counter() - start)
        if product[0, 0].item() != _SHAPE[1]:
            raise ArithmeticError(f"torch multiplied {dtype} wrongly")
        return min(times)

    return {
        "float32_s": seconds(torch.float32),
        "bfloat16_s": seconds(torch.bfloat16),
        "threads": torch.get_num_threads(),
    }


def _gpu() -> Mapping[str, Any]:
    import torch

    has_driver = Path("/proc/driver/nvidia/version").exists()
    if not torch.cuda.is_available():
        return {"build": torch.version.cuda, "has_driver": has_driver}
    ones = torch.ones(64, 64, dtype=torch.bfloat16, device="cuda")
    if (ones @ ones)[0, 0].item() != 64:
        raise ArithmeticError("the GPU multiplied wrongly")
    free_bytes, _ = torch.cuda.mem_get_info()
    return {
        "build": torch.version.cuda,
        "has_driver": has_driver,
        "name": torch.cuda.get_device_name(),
        "free_bytes": free_bytes,
    }


def _write(out: TextIO, line: Mapping[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def _ending(returncode: int) -> str:
    if returncode < 0:
        return f"ended Python by signal {-returncode}"
    return f"ended Python with status {returncode}"


def _read(output: bytes) -> Probe:
    """What the steps gave; `unfinished` is the one that began but didn't end."""
    facts: dict[str, Mapping[str, Any]] = {}
    errors: dict[str, str] = {}
    running = None
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # what a library wrote past Python
        if not isinstance(event, dict):
            continue
        if "begin" in event:
            running = event["begin"]
        elif "end" in event:
            running = None
            if "error" in event:
                errors[event["end"]] = event["error"]
            else:
                facts[event["end"]] = event["facts"]
    return Probe(facts, errors, unfinished=running)
