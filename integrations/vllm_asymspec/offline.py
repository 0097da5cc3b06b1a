"""vLLM's offline engine with both views: what to pass to `vllm.LLM` and with each request.

    llm = vllm.LLM(verifier, **engine_arguments(drafter))
    outputs = llm.generate(
        {"prompt_token_ids": compressed_ids}, sampling_params(full_ids, max_tokens=200)
    )
    report = report_of_output(outputs[0])

Both views end with the same generation prompt and come as token ids of the verifier's tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.errors import ConfigurationError, NotAsymSpecError
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport

from .config import CONFIG_KEY, PluginConfig
from .launch import SCHEDULER_CLASS, WORKER_CLASS
from .vocabularies import Vocabularies
from .wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids

__all__ = ["engine_arguments", "report_of_counts", "report_of_output", "sampling_params"]


def engine_arguments(
    drafter: str,
    *,
    num_draft_tokens: int = 2,
    tensor_parallel_size: int = 1,
    settings: Mapping[str, Any] | None = None,
    vocabularies: Vocabularies | None = None,
) -> dict[str, Any]:
    """Arguments of `vllm.LLM` or AsyncEngineArgs, beside the model's; `settings` are PluginConfig's.

    `vocabularies` are needed for a drafter of another family: `Vocabularies.of(verifier, drafter, "auto")`.
    """
    vocabularies = vocabularies or Vocabularies()
    additional = {CONFIG_KEY: {**(settings or {}), **vocabularies.settings}}
    PluginConfig.of(additional)
    scheduling = {"async_scheduling": False} if vocabularies.needs_first_runner else {}
    return {
        **scheduling,
        "worker_cls": WORKER_CLASS,
        "scheduler_cls": SCHEDULER_CLASS,
        "tensor_parallel_size": tensor_parallel_size,
        "speculative_config": {
            "method": "draft_model",
            "model": drafter,
            "num_speculative_tokens": num_draft_tokens,
            "draft_tensor_parallel_size": tensor_parallel_size,
            **vocabularies.speculative,
        },
        "additional_config": additional,
    }


def sampling_params(
    full_ids: Sequence[int],
    options: AsymSpecOptions | None = None,
    *,
    cache_salt: str | None = None,
    base_ids: Sequence[int] = (),
    **fields: Any,
) -> Any:
    """vLLM's SamplingParams of a request whose prompt is the compressed view and whose full view is this.

    For a drafter of another family both are in its own tokens: `full_ids`, and `base_ids` for the compressed
    view, whose tokens for the verifier are the prompt.
    `fields` are further ones of SamplingParams; decoding is greedy, so a temperature raises
    ConfigurationError.
    """
    if fields.get("temperature"):
        raise ConfigurationError(
            f"temperature={fields['temperature']}: AsymSpec decoding is greedy; leave it out"
        )
    from vllm import SamplingParams

    argument = AsymSpecArgs(
        pack_ids(full_ids), options or AsymSpecOptions(), cache_salt, base_ids=pack_ids(base_ids)
    ).pack()
    extra = {**(fields.pop("extra_args", None) or {}), EXTRA_ARG: argument}
    return SamplingParams(**{**fields, "temperature": 0.0}, extra_args=extra)


def report_of_output(output: Any) -> AsymSpecReport:
    """The report of one of vLLM's RequestOutputs. Raises NotAsymSpecError where it has none."""
    counts = (output.kv_transfer_params or {}).get(EXTRA_ARG)
    if counts is None:
        raise NotAsymSpecError("the output has no AsymSpec report: was it a plain request?")
    if "error" in counts:
        raise ConfigurationError(counts["error"])
    return report_of_counts(counts)


def report_of_counts(counts: Mapping[str, Any]) -> AsymSpecReport:
    """The report in what the scheduler sends of a request."""
    return AsymSpecReport.model_validate(
        {name: counts[name] for name in AsymSpecReport.model_fields if name in counts}
    )
