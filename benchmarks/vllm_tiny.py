"""A tiny pair with long positions, and a vLLM server over it: for `vllm_long_run.py`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.engine.tiny_folder import byte_tokenizer, save_model
from vllm_asymspec.environment import server_environment
from vllm_asymspec.offline import engine_arguments

__all__ = ["MAX_MODEL_LEN", "NUM_DRAFT_TOKENS", "Process", "TinyServer", "save_pair"]

ROOT = Path(__file__).resolve().parents[1]
MAX_POSITIONS = 131_072
MAX_MODEL_LEN = 4_096
NUM_DRAFT_TOKENS = 3
VOCAB, HIDDEN, HEADS, HEAD_SIZE = 272, 64, 2, 32
EOS = 257
BYTES_PER_TOKEN = 2 * HEAD_SIZE * 4  # keys and values of the drafter's one layer and head, in float32
BLOCK_SIZE = 32
DISAGREEMENT = 0.1  # with these scales about half the drafts stand, and texts don't run in circles
WEIGHT_SCALE, HEAD_SCALE = 6.0, 10.0
START_S, STOP_S = 300, 60


def save_pair(folder: Path) -> tuple[Path, Path]:
    """Folders of a random verifier, and of a drafter that is the same with noise."""
    config = Qwen2Config(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=None,
    )
    pair = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        module = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for weight in module.parameters():
                if weight.ndim > 1:
                    weight.mul_(WEIGHT_SCALE)
            module.get_output_embeddings().weight.mul_(HEAD_SCALE / WEIGHT_SCALE)
        pair.append(module)
    verifier, drafter = pair
    with torch.no_grad():
        for mine, theirs in zip(drafter.parameters(), verifier.parameters(), strict=True):
            mine.mul_(DISAGREEMENT).add_(theirs, alpha=1 - DISAGREEMENT)
    tokenizer = byte_tokenizer()
    folders = folder / "verifier", folder / "drafter"
    for path, module in zip(folders, pair, strict=True):
        save_model(path, module, tokenizer)
        _without_padding_ids(path, len(tokenizer))
    return folders


def _without_padding_ids(folder: Path, num_ids: int) -> None:
    """Makes ids beyond the tokenizer as unlikely as in a trained model; plain vLLM may emit them."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"][num_ids:] = 0
    save_file(tensors, path, metadata={"format": "pt"})


@dataclass(frozen=True, slots=True)
class Process:
    """What Linux says of a process, in its folder of /proc."""

    folder: Path
    name: str
    session: int
    cpu_s: float
    rss_bytes: int

    @classmethod
    def read(cls, folder: Path) -> Process | None:
        """The process of that folder; None once it is over."""
        try:
            head, _, tail = (folder / "stat").read_text().rpartition(")")
        except OSError:
            return None
        fields = tail.split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        rss_bytes = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        return cls(folder, head.partition("(")[2], int(fields[3]), cpu_s, rss_bytes)


@dataclass
class TinyServer:
    """A server on a free port, by the long form of `asymspec vllm serve`, while the object is entered."""

    pair: tuple[Path, Path]
    log: Path
    pool_tokens: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TinyServer:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        settings = {"pool_bytes": self.pool_tokens * BYTES_PER_TOKEN, **self.settings}
        verifier, drafter = map(str, self.pair)
        arguments = engine_arguments(drafter, num_draft_tokens=NUM_DRAFT_TOKENS, settings=settings)
        additional = {**arguments["additional_config"], "state_file": str(self._state_file)}
        line = [sys.executable, "-m", "vllm_asymspec", "serve", verifier, "--served-model-name", "tiny"]
        line += ["--worker-cls", arguments["worker_cls"]]
        line += ["--speculative-config", json.dumps(arguments["speculative_config"])]
        line += ["--additional-config", json.dumps(additional)]
        line += ["--scheduler-cls", "benchmarks.vllm_probe.WatchedScheduler"]
        line += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
        line += ["--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", "8"]
        line += ["--max-num-batched-tokens", "512", "--block-size", str(BLOCK_SIZE)]
        line += ["--kv-cache-memory-bytes", str(MAX_MODEL_LEN * 9 // 8 * BYTES_PER_TOKEN)]
        line += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        line += ["--worker-extension-cls", "benchmarks.vllm_probe.Probe"]
        environment = {
            **server_environment(os.environ),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")]),
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_COMPUTE_NANS_IN_LOGITS": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
        }
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                line,
                env=environment,
                cwd=self.log.parent,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.url = f"http://127.0.0.1:{port}"
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def is_alive(self) -> bool:
        """Whether the server's first process runs."""
        return self._process is not None and self._process.poll() is None

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of the server's processes by name; pages that several share count several times."""
        found: dict[str, int] = {}
        for process in self._processes():
            found[process.name] = found.get(process.name, 0) + process.rss_bytes
        return found

    def worker(self) -> Path:
        """The worker's folder in /proc; the other processes spin while they wait for it."""
        (found,) = (process.folder for process in self._processes() if "Worker" in process.name)
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = httpx.get(f"{self.url}/metrics", timeout=START_S).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def probe(self) -> dict[str, Any]:
        """What `vllm_probe.Probe` finds."""
        answer = httpx.post(f"{self.url}/collective_rpc", json={"method": "asymspec_probe"}, timeout=START_S)
        found: dict[str, Any] = answer.raise_for_status().json()["results"][0]
        return found

    def state(self) -> dict[str, int]:
        """What the scheduler knew when it last had no request."""
        state: dict[str, int] = json.loads(self._state_file.read_text("utf-8"))
        return state

    @property
    def _state_file(self) -> Path:
        return self.log.with_suffix(".state")

    def _processes(self) -> list[Process]:
        session = self._process.pid if self._process else 0
        found = (Process.read(path) for path in Path("/proc").glob("[0-9]*"))
        return [process for process in found if process is not None and process.session == session]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.is_alive():
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        raise RuntimeError("the server did not start:\n" + self.log.read_text("utf-8", "replace")[-4_000:])
