"""What vLLM's offline engine is given for both views, and the report read back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from asymspec_agents.errors import ConfigurationError, NotAsymSpecError
from asymspec_agents.protocol import AsymSpecOptions
from vllm_asymspec.launch import SCHEDULER_CLASS, WORKER_CLASS
from vllm_asymspec.offline import engine_arguments, report_of_output, sampling_params
from vllm_asymspec.wire_args import AsymSpecArgs, unpack_ids


def test_the_engines_arguments() -> None:
    arguments = engine_arguments(
        "small", num_draft_tokens=3, tensor_parallel_size=2, settings={"pool_bytes": 1}
    )
    assert arguments["worker_cls"] == WORKER_CLASS
    assert arguments["scheduler_cls"] == SCHEDULER_CLASS
    assert arguments["tensor_parallel_size"] == 2
    assert arguments["speculative_config"]["draft_tensor_parallel_size"] == 2
    assert arguments["speculative_config"]["num_speculative_tokens"] == 3
    assert arguments["additional_config"] == {"asymspec": {"pool_bytes": 1}}
    with pytest.raises(ConfigurationError, match="pool_byte"):
        engine_arguments("small", settings={"pool_byte": 1})


def test_a_requests_parameters_carry_its_full_view() -> None:
    pytest.importorskip("vllm", reason="SamplingParams are vLLM's", exc_type=ImportError)
    params = sampling_params(
        [5, 6], AsymSpecOptions(beta=2.0), cache_salt="s", max_tokens=7, extra_args={"other": 1}
    )
    assert (params.temperature, params.max_tokens, params.extra_args["other"]) == (0, 7, 1)
    args = AsymSpecArgs.of(params.extra_args)
    assert args is not None
    assert list(unpack_ids(args.full_ids)) == [5, 6]
    assert (args.options.beta, args.salt) == (2.0, "s")


def test_sampling_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"temperature=0\.5"):
        sampling_params([1], temperature=0.5)


def test_the_report_of_an_output() -> None:
    def output(params: object) -> SimpleNamespace:
        return SimpleNamespace(kv_transfer_params=params)

    report = report_of_output(output({"asymspec": {"mode": "strict", "drafted": 4, "pool_usage": 0.5}}))
    assert (report.mode, report.drafted) == ("strict", 4)
    with pytest.raises(NotAsymSpecError):
        report_of_output(output(None))
    with pytest.raises(ConfigurationError, match="too long"):
        report_of_output(output({"asymspec": {"error": "too long"}}))
