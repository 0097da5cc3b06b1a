"""How fast the vLLM plugin is, beside vLLM itself: `python benchmarks/vllm.py [--small | --ratio]`.

One run measures the plugin (`asymspec`) and stock vLLM, without speculation (`plain`) and with its own
draft-model speculation (`draft`), each of these on the full and on the compressed view: time to the first
token from empty caches, decoding, several requests at once, a growing conversation, and how long somebody who
decodes waits when a long view arrives. A step is set against the bare forwards in it. Engines start one after
the other, each in a process of its own; everything runs on the CPU, in bfloat16, not compiled.

Models are the default pair. `--small` takes small random ones, to see that the script works; `--ratio` random
ones at the paper's ratio of sizes, where a seeded coin decides on every draft, the plugin's and vLLM's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [str(ROOT), str(ROOT / "integrations")] + [  # as a script: this file must not pass for vLLM
    path for path in sys.path if Path(path or ".").resolve() != ROOT / "benchmarks"
]

from benchmarks.vllm_cells import PLANS, EngineName  # noqa: E402
from benchmarks.vllm_models import model_folders  # noqa: E402
from evals.provenance import provenance  # noqa: E402
from vllm_asymspec.distribution import CPU_NAME, is_cpu_build  # noqa: E402
from vllm_asymspec.environment import server_environment  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
OUTPUTS = {"real": RESULTS / "vllm.json", "ratio": RESULTS / "vllm_ratio.json"}
NUM_CHARS_OF_ERROR = 3000
IN_ONE_PROCESS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the one of the CPU build
    "VLLM_LOGGING_LEVEL": "ERROR",
}


def measure_engine(
    name: EngineName, plan: str, folders: tuple[Path, Path], has_weights: bool
) -> dict[str, Any]:
    """Everything that is measured with one engine. Raises RuntimeError where its process fails."""
    environment = server_environment(os.environ) | IN_ONE_PROCESS
    environment["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    environment.setdefault("OMP_NUM_THREADS", str(num_threads()))
    with tempfile.TemporaryDirectory() as scratch:
        job, result, log = (Path(scratch, file) for file in ("job.json", "result.json", "log.txt"))
        job.write_text(
            json.dumps(
                {
                    "engine": name,
                    "plan": plan,
                    "folders": [str(folder) for folder in folders],
                    "has_weights": has_weights,
                    "result": str(result),
                }
            ),
            "utf-8",
        )
        command = [sys.executable, "-m", "benchmarks.vllm_engine", str(job)]
        with log.open("w", encoding="utf-8") as stream:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=stream, stderr=subprocess.STDOUT, check=False
            )
        if done.returncode != 0:
            text = log.read_text("utf-8", errors="replace")
            raise RuntimeError(
                f"the {name} engine's process ended with {done.returncode}:\n{text[-NUM_CHARS_OF_ERROR:]}"
            )
        found: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return found


def num_threads() -> int:
    """Threads of an engine: what OMP_NUM_THREADS says, or the processors this process may use."""
    given = os.environ.get("OMP_NUM_THREADS")
    return int(given) if given else len(os.sched_getaffinity(0))


def print_tables(result: dict[str, Any]) -> None:
    """The figures of one engine."""
    print(f"\n{result['engine']}: started in {result['start_s']:.0f} s", flush=True)
    _print_header("view tokens x batch")
    for row in result["cells"]:
        compressed = "" if row["compressed_tokens"] is None else f"/{row['compressed_tokens']}"
        _print_row(f"{row['full_tokens']}{compressed} x {row['batch']}", row)
    if result["turns"]:
        _print_header("turn (tokens)")
    for row in result["turns"]:
        _print_row(f"{row['turn']} ({row['full_tokens']}/{row['compressed_tokens']})", row)
    for row in result["arrivals"]:
        print(
            f"{row['full_tokens']} tokens arrive, {row['arm']}, {row['reading']}: somebody else waits up to "
            f"{row['longest_wait_s']:.2f} s for a token, the newcomer {row['newcomer_first_token_s']:.1f} s",
            flush=True,
        )


def _print_header(label: str) -> None:
    columns = ("first s", "total s", "tok/s", "step s", "/forw.", "tok/step", "accepted")
    print(f"{label:<22}{'arm':<18}" + "".join(f"{column:>9}" for column in columns))


def _print_row(label: str, row: dict[str, Any]) -> None:
    names = ("time_to_first_token_s", "total_s", "decode_tokens_per_s", "step_s")
    names += ("step_over_forwards", "tokens_per_step", "acceptance")
    values = ["" if row[name] is None else f"{row[name]:.2f}" for name in names]
    print(f"{label:<22}{row['arm']:<18}" + "".join(f"{value:>9}" for value in values), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--small", action="store_true", help="small random models, about three minutes")
    kind.add_argument("--ratio", action="store_true", help="random models of 4B and 0.5B")
    parser.add_argument(
        "--output", type=Path, default=None, help="JSON file (default: in results/; of --small none)"
    )
    arguments = parser.parse_args()
    plan = "small" if arguments.small else "ratio" if arguments.ratio else "real"

    started = time.perf_counter()
    package = CPU_NAME if is_cpu_build() else "vllm"
    result: dict[str, Any] = {
        "provenance": provenance(package, "torch", num_threads=num_threads(), num_runs=1),
        "plan": asdict(PLANS[plan]),
        "engines": [],
    }
    output = arguments.output or OUTPUTS.get(plan)
    with tempfile.TemporaryDirectory() as scratch:
        folders = model_folders(plan, Path(scratch))
        models = zip(("verifier", "drafter"), (folder.name for folder in folders), strict=True)
        result["provenance"]["models"] = dict(models)
        for name in PLANS[plan].engines:
            result["engines"].append(measure_engine(name, plan, folders, has_weights=plan == "real"))
            print_tables(result["engines"][-1])
            result["provenance"]["elapsed_s"] = time.perf_counter() - started
            if output is not None:  # after each engine: a run takes long
                output.parent.mkdir(parents=True, exist_ok=True)
                output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    if output is not None:
        print(f"\nwritten to {output}")


if __name__ == "__main__":
    main()
