"""What the plugin can't serve is refused when the engine starts, each thing by name, all at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from asymspec_agents.decoding.modes import MAX_DRAFT_TOKENS
from asymspec_agents.errors import ConfigurationError

from .config import PluginConfig
from .vision import image_processor

__all__ = ["refuse_unsupported"]

logger = logging.getLogger(__name__)

SCHEDULERS = "vllm_asymspec.scheduler"
NUM_NAMED = 3  # tokens of another id that an error names


def refuse_unsupported(vllm_config: Any) -> None:
    """Raises ConfigurationError naming all settings that don't go with the plugin, each with its way out."""
    spec = vllm_config.speculative_config
    if spec is None or spec.method != "draft_model":
        method = None if spec is None else spec.method
        raise ConfigurationError(
            f'speculative_config.method={method!r}: AsymSpec needs "draft_model" and the drafter as its model'
        )
    parts = (
        _speculation(spec),
        _vocabularies(vllm_config, spec),
        _drafter(spec.draft_model_config),
        _vision(spec.draft_model_config),
        _features(vllm_config),
        _scheduling(vllm_config),
        _parallelism(vllm_config, spec),
    )
    problems = [problem for part in parts for problem in part]
    if problems:
        raise ConfigurationError("AsymSpec can't run with this configuration:\n- " + "\n- ".join(problems))


def _speculation(spec: Any) -> Iterator[str]:
    num_drafts = spec.num_speculative_tokens
    if not 1 <= num_drafts <= MAX_DRAFT_TOKENS:
        yield f"speculative_config.num_speculative_tokens={num_drafts} is outside [1, {MAX_DRAFT_TOKENS}]"
    for name, reason in (
        ("num_speculative_tokens_per_batch_size", "the number of drafts is fixed"),
        ("parallel_drafting", "drafts are made one after the other"),
        ("enable_adaptive_verification", "the verifier reads as many drafts as each request asks for"),
    ):
        if getattr(spec, name, None):
            yield f"speculative_config.{name}: {reason}; leave it out"


def _vocabularies(config: Any, spec: Any) -> Iterator[str]:
    if spec.use_heterogeneous_vocab and PluginConfig.of(config.additional_config).vocab_map is None:
        yield (
            "speculative_config.use_heterogeneous_vocab: AsymSpec goes between two vocabularies by a map of "
            'its own; set asymspec.vocab_map to "auto" or a file (`asymspec vllm serve --vocab-map`)'
        )
    from .compat import differing_tokens, family_of  # need vLLM, which the other checks do without

    if PluginConfig.of(config.additional_config).vocab_map is None:
        yield from _one_vocabulary(differing_tokens(config), spec.draft_model_config)
    elif spec.draft_model_config.is_multimodal_model and family_of(config) is not None:
        yield (
            f"asymspec.vocab_map: the drafter {spec.draft_model_config.model} sees images, which one of "
            "another family can't yet; take one that reads text, or one of the verifier's own family"
        )


def _one_vocabulary(differing: list[str] | None, drafter: Any) -> Iterator[str]:
    if differing is None:
        logger.warning("AsymSpec takes %s's ids for the verifier's: it can't compare tokens", drafter.model)
    elif differing:
        named = ", ".join(repr(token) for token in differing[:NUM_NAMED])
        way = (
            "one that sees needs the verifier's text vocabulary"
            if drafter.is_multimodal_model
            else 'it can take part through a vocabulary map (asymspec.vocab_map="auto", --vocab-map auto)'
        )
        yield (
            f"the drafter {drafter.model} does not have the verifier's ids for {len(differing):,} tokens "
            f"({named}, …): choose one of the verifier's own family; {way}"
        )


def _drafter(model: Any) -> Iterator[str]:
    kinds = set(getattr(model.hf_text_config, "layer_types", None) or ()) - {"full_attention", "attention"}
    for found, what in (
        (bool(model.get_sliding_window()), f"a sliding window of {model.get_sliding_window()} tokens"),
        (bool(kinds), f"layers of other kinds ({', '.join(sorted(kinds))})"),
        (model.is_hybrid or model.has_inner_state or model.is_attention_free, "layers with a state"),
        (model.use_mla, "latent attention (MLA)"),
        (model.is_encoder_decoder, "an encoder"),
        (model.uses_mrope and not model.is_multimodal_model, "positions of several dimensions (M-RoPE)"),
        (model.is_mm_prefix_lm, "images whose tokens attend to each other both ways"),
        (model.requires_raw_input_tokens, "a tower that reads token ids"),
    ):
        if found:
            yield f"the drafter {model.model} has {what}: take one with plain attention over all positions"


def _vision(model: Any) -> Iterator[str]:
    if model.is_multimodal_model:
        try:
            image_processor(model)
        except ConfigurationError as error:
            yield str(error)


def _features(config: Any) -> Iterator[str]:
    for owner, name, reason in (
        (config, "lora_config", "the drafter knows no adapters (enable_lora); serve merged weights"),
        (config, "kv_transfer_config", "KV connectors don't carry the drafter's views"),
        (config, "ec_transfer_config", "encoder connectors don't know the drafter"),
        (config, "weight_transfer_config", "cached views would outlive the weights that computed them"),
        (config, "watermark_config", "the tokens are the rule's, and carry no watermark"),
        (config.model_config, "enable_sleep_mode", "the drafter's pool would not survive it"),
    ):
        if getattr(owner, name, None):
            yield f"{name}: {reason}; leave it out"


def _scheduling(config: Any) -> Iterator[str]:
    scheduling = config.scheduler_config
    scheduler = scheduling.get_scheduler_cls()
    if not any(base.__module__ == SCHEDULERS for base in scheduler.__mro__):
        yield (
            f"scheduler_cls is {scheduler.__module__}.{scheduler.__qualname__}: only the plugin's make the "
            f"plans the worker needs; pass {SCHEDULERS}_choice.AnyAsymSpecScheduler"
        )
    if scheduling.async_scheduling and not config.use_v2_model_runner:
        yield (
            "async_scheduling: the first model runner drafts from both views synchronously only; pass "
            "--no-async-scheduling, or use the second (VLLM_USE_V2_MODEL_RUNNER=1)"
        )


def _parallelism(config: Any, spec: Any) -> Iterator[str]:
    parallel = config.parallel_config
    size, draft_size = parallel.tensor_parallel_size, spec.draft_parallel_config.tensor_parallel_size
    if draft_size != size:
        yield f"draft_tensor_parallel_size={draft_size}: must be tensor_parallel_size={size}"
    for name in ("pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            yield f"{name}={getattr(parallel, name)}: must be 1; use tensor parallelism, or replicas"
    if parallel.use_ubatching:
        yield "enable_dbo: a step's rows can't be split between two batches; leave it out"
    if getattr(parallel, "enable_batch_sharded_sampling", False):
        yield "enable_batch_sharded_sampling: every rank has to judge all requests; leave it out"
    if parallel.enable_eplb:
        yield "enable_eplb: the drafter's experts can't be rebalanced; leave it out"
    if parallel.data_parallel_size > 1 and (config.model_config.is_moe or spec.draft_model_config.is_moe):
        yield (
            f"data_parallel_size={parallel.data_parallel_size}: ranks of a mixture of experts would have to "
            "draft in step; start independent servers behind a router"
        )
