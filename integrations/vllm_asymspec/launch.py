"""The command line of a vLLM server with this plugin, from what a user says to what `vllm serve` is told.

The long form, for those who start vLLM themselves (in a process in which VLLM_PLUGINS names `asymspec`):

    vllm serve VERIFIER
      --worker-cls vllm_asymspec.worker.AsymSpecWorker
      --scheduler-cls vllm_asymspec.scheduler_choice.AnyAsymSpecScheduler
      --speculative-config '{"method": "draft_model", "model": DRAFTER, "num_speculative_tokens": 2}'
      --additional-config '{"asymspec": {"max_full_len": 65536}}'

VLLM_PLUGINS is one list for all kinds of vLLM plugins: those that it doesn't name are off. With tensor
parallelism the speculative configuration needs `draft_tensor_parallel_size` too. Of the CPU build, whose own
command does not start, `python -m vllm_asymspec serve` takes the place of `vllm serve`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asymspec_agents.decoding.modes import MAX_DRAFT_TOKENS
from asymspec_agents.errors import ConfigurationError

from .config import CONFIG_KEY, PluginConfig
from .vocabularies import IN_TURN_ONLY, Vocabularies

__all__ = ["CPU_MEMORY_SHARE", "SCHEDULER_CLASS", "WORKER_CLASS", "Launch", "is_cpu_memory_set"]

# vLLM's own 0.92 is of the whole machine's memory and for one worker, by what it has taken when idle: nothing
# is left for the server's other processes and for what a long step takes.
CPU_MEMORY_SHARE = 0.7
MEMORY_FLAGS = ("--gpu-memory-utilization", "--kv-cache-memory-bytes")
CPU_CACHE_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"

WORKER_CLASS = "vllm_asymspec.worker.AsymSpecWorker"
SCHEDULER_CLASS = "vllm_asymspec.scheduler_choice.AnyAsymSpecScheduler"

OURS = ("--worker-cls", "--scheduler-cls")
ASYNC, IN_TURN = "--async-scheduling", "--no-async-scheduling"
MERGED = {"-sc": "--speculative-config"}
TENSOR_PARALLEL = {"-tp": "--tensor-parallel-size"}
MIN_ABBREVIATION = 9  # argparse takes any unambiguous beginning of a flag, `--spec…` among them


@dataclass(frozen=True, slots=True)
class Launch:
    """A server to start. Names of models are what vLLM takes: folders or hub names.

    `settings` are those of PluginConfig that were given; `arguments` are vLLM's own flags. `served_name`: the
    verifier's name in the API where it is not `verifier`. `memory_share`: the worker's share of the memory
    where flags and configuration file say nothing of it, None for vLLM's own default. `vocabularies`: what
    both models' need. Raises ConfigurationError for a flag that contradicts what this plugin needs.
    """

    verifier: str
    drafter: str
    num_draft_tokens: int = 2
    settings: Mapping[str, Any] = field(default_factory=dict)
    served_name: str | None = None
    memory_share: float | None = None
    arguments: Sequence[str] = ()
    vocabularies: Vocabularies = field(default_factory=Vocabularies)

    def __post_init__(self) -> None:
        if not 1 <= self.num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise ConfigurationError(
                f"num_draft_tokens={self.num_draft_tokens} is outside [1, {MAX_DRAFT_TOKENS}]"
            )
        for flag in (*OURS, "--model"):
            for value in _given(self.arguments, flag):
                reason = "the model is named first" if flag == "--model" else "`asymspec vllm serve` sets it"
                raise ConfigurationError(f"{flag} {value}: {reason}; to set it, start `vllm serve` yourself")
        if self.vocabularies.needs_first_runner and list(_given(self.arguments, ASYNC)):
            raise ConfigurationError(f"{ASYNC}: {IN_TURN_ONLY}")
        for path in _given(self.arguments, "--config"):
            _check_config_file(Path(path))

    def vllm_arguments(self) -> list[str]:
        """What follows `vllm`: `serve`, the verifier, this plugin's flags, then the user's own."""
        rest, speculative = _without_json(self.arguments, "--speculative-config", MERGED)
        rest, additional = _without_json(rest, "--additional-config", {})
        arguments = [
            "serve",
            self.verifier,
            *("--worker-cls", WORKER_CLASS),
            *("--scheduler-cls", SCHEDULER_CLASS),
            *("--speculative-config", json.dumps(self._speculative(speculative))),
            *("--additional-config", json.dumps(self._additional(additional))),
        ]
        if self.served_name is not None and not list(_given(rest, "--served-model-name")):
            arguments += ["--served-model-name", self.served_name]
        if self.memory_share is not None and not self._is_memory_set():
            arguments += ["--gpu-memory-utilization", str(self.memory_share)]
        if self.vocabularies.needs_first_runner and not list(_given(rest, IN_TURN)):
            arguments.append(IN_TURN)
        return [*arguments, *rest]

    def _is_memory_set(self) -> bool:
        files = [Path(path) for path in _given(self.arguments, "--config")]
        return any(
            list(_given(self.arguments, flag)) or any(_config_file_sets(file, flag[2:]) for file in files)
            for flag in MEMORY_FLAGS
        )

    def _speculative(self, given: Mapping[str, Any]) -> dict[str, Any]:
        needed = {
            "method": "draft_model",
            "model": self.drafter,
            "num_speculative_tokens": self.num_draft_tokens,
            "draft_tensor_parallel_size": self._tensor_parallel_size(),
            **self.vocabularies.speculative,
        }
        return _merged(
            needed, {name.replace("-", "_"): given[name] for name in given}, "--speculative-config"
        )

    def _additional(self, given: Mapping[str, Any]) -> dict[str, Any]:
        ours = given.get(CONFIG_KEY, {})
        if not isinstance(ours, Mapping):
            raise ConfigurationError(f"--additional-config: {CONFIG_KEY}={ours!r} is not an object")
        additional = {
            **given,
            CONFIG_KEY: _merged(
                {**self.settings, **self.vocabularies.settings}, ours, f"--additional-config {CONFIG_KEY}"
            ),
        }
        PluginConfig.of(additional)
        return additional

    def _tensor_parallel_size(self) -> int:
        sizes = list(_given(self.arguments, "--tensor-parallel-size", TENSOR_PARALLEL))
        if not sizes:
            return 1
        try:
            return int(sizes[-1])
        except ValueError:
            raise ConfigurationError(f"--tensor-parallel-size {sizes[-1]} is not a number") from None


def is_cpu_memory_set(variables: Mapping[str, str]) -> bool:
    """Whether the environment says how much memory vLLM's CPU build takes for keys and values."""
    return variables.get(CPU_CACHE_VARIABLE, "0") != "0"


def _merged(needed: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Both together. Raises ConfigurationError where they contradict each other."""
    for name in needed.keys() & given.keys():
        if needed[name] != given[name]:
            raise ConfigurationError(
                f"{where}: {name}={given[name]!r}, but {needed[name]!r} elsewhere on the command line; "
                "give it once"
            )
    return {**given, **needed}


def _given(arguments: Iterable[str], flag: str, short: Mapping[str, str] | None = None) -> Iterator[str]:
    """The value of each place where the flag stands, in any spelling that vLLM takes; "" for none."""
    items = list(arguments)
    for index, item in enumerate(items):
        if _is(item, flag, short or {}):
            _, equals, value = item.partition("=")
            yield value if equals else next(iter(items[index + 1 :]), "")


def _is(item: str, flag: str, short: Mapping[str, str]) -> bool:
    name = item.partition("=")[0]
    if short.get(name) == flag:
        return True
    name = name.partition(".")[0].replace("_", "-")
    return name == flag or (len(name) >= MIN_ABBREVIATION and name != flag and flag.startswith(name))


def _without_json(
    arguments: Sequence[str], flag: str, short: Mapping[str, str]
) -> tuple[list[str], dict[str, Any]]:
    """The arguments less a flag that holds a JSON object, and that object."""
    rest: list[str] = []
    values: list[str] = []
    items = iter(arguments)
    for item in items:
        if not _is(item, flag, short):
            rest.append(item)
            continue
        name, equals, value = item.partition("=")
        if "." in name:
            raise ConfigurationError(f"{name}: give the whole of {flag} as one JSON object here")
        values.append(value if equals else next(items, ""))
    if len(values) > 1:
        raise ConfigurationError(f"{flag} is given {len(values)} times; give one JSON object")
    if not values:
        return rest, {}
    try:
        parsed = json.loads(values[0])
    except ValueError as error:
        raise ConfigurationError(f"{flag} {values[0]!r} is not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ConfigurationError(f"{flag} {values[0]!r} is not a JSON object")
    return rest, parsed


def _check_config_file(path: Path) -> None:
    """Refuses a vLLM configuration file with settings that the command line would override unseen."""
    for name in ("worker-cls", "scheduler-cls", "speculative-config", "additional-config"):
        if _config_file_sets(path, name):
            raise ConfigurationError(f"{path} sets {name}, which `asymspec vllm serve` does; take it out")


def _config_file_sets(path: Path, name: str) -> bool:
    """Whether a vLLM configuration file has that setting; not where it can't be read, as vLLM will say."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(rf"^\s*{name.replace('-', '[-_]')}\s*:", text, re.MULTILINE) is not None
