"""Which models the engine takes, and what it reads from them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.model import CausalModel, load_model
from asymspec_agents.errors import IncompatibleModelsError, WeightsError

from .tiny import SHAPE, VOCAB


def tiny(kind: str, **changes: Any) -> transformers.PreTrainedModel:
    """A small random model of that architecture."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **changes})
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def test_what_is_read_from_a_model() -> None:
    module = tiny("Llama", eos_token_id=[3, 5])
    module.generation_config.eos_token_id = 7
    model = CausalModel(module.train(), "mine")
    assert model.name == "mine"
    assert model.vocab_size == VOCAB
    assert model.max_positions == 4096
    assert model.eos_token_ids == frozenset({3, 5, 7})
    assert model.num_parameters == sum(p.numel() for p in module.parameters())
    assert not module.training


@pytest.mark.parametrize("kind", ["dynamic", "linear"])
def test_lengths_that_change_the_angles_are_out_of_reach(kind: str) -> None:
    """Dynamic RoPE turns cached keys wrong beyond its original length; a fixed scale does not."""
    rope = {"rope_type": kind, "factor": 4.0, "rope_theta": 10000.0}
    if kind == "dynamic":
        rope["original_max_position_embeddings"] = 512
    module = tiny("Llama", rope_parameters=rope)
    assert CausalModel(module, "rope").max_positions == (512 if kind == "dynamic" else 4096)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_cache_goes_by_the_name_the_model_has_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was renamed within the transformers versions that are supported."""
    module = tiny("Llama")
    original = module.forward
    taken = "cache" if "cache" in inspect.signature(original).parameters else "past_key_values"

    def by_cache(
        input_ids: Any, position_ids: Any = None, cache: Any = None, logits_to_keep: Any = 0, **more: Any
    ) -> Any:
        assert "past_key_values" not in more
        return original(
            input_ids, position_ids=position_ids, logits_to_keep=logits_to_keep, **{taken: cache}, **more
        )

    def by_past(
        input_ids: Any,
        position_ids: Any = None,
        past_key_values: Any = None,
        logits_to_keep: Any = 0,
        **more: Any,
    ) -> Any:
        assert "cache" not in more
        return by_cache(input_ids, position_ids, past_key_values, logits_to_keep, **more)

    ids = torch.tensor([[1, 2, 3]])
    wanted = CausalModel(module, "as it is").forward(ids, KVCache(), 1)
    monkeypatch.setattr(module, "forward", by_cache if name == "cache" else by_past)
    model, cache = CausalModel(module, "renamed"), KVCache()
    torch.testing.assert_close(model.forward(ids, cache, 1), wanted)
    assert cache.length == 3
    assert model.can_pack


MAMBA = {"vocab_size": VOCAB, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("Mamba", MAMBA),
        ("Lfm2", {"layer_types": ["conv", "full_attention"]}),
        ("RecurrentGemma", {"block_types": ["recurrent", "attention"]}),
    ],
)
def test_states_that_cannot_be_rolled_back_are_refused(kind: str, shape: dict[str, Any]) -> None:
    module = tiny(kind, **shape)
    with pytest.raises(IncompatibleModelsError, match="recurrent one"):
        CausalModel(module, "recurrent one")


def test_an_encoder_decoder_is_refused() -> None:
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    with pytest.raises(IncompatibleModelsError, match="encoder-decoder"):
        CausalModel(transformers.T5ForConditionalGeneration(config), "t5")


def test_a_saved_model_loads_as_it_was(tmp_path: Path) -> None:
    module = tiny("Qwen2", eos_token_id=4)
    module.save_pretrained(tmp_path / "saved-one")
    model = load_model(tmp_path / "saved-one", dtype="float32", device="cpu")
    assert (model.name, model.device.type, model.eos_token_ids) == ("saved-one", "cpu", frozenset({4}))
    ids = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(model.module(ids).logits, module.eval()(ids).logits)
    assert load_model(tmp_path / "saved-one", name="other").module.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "content", [None, "{}", '{"model_type": "no-such-model"}', '{"model_type": "llama"}']
)
def test_a_folder_without_a_model_is_a_clear_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(WeightsError, match="cannot load a causal language model"):
        load_model(tmp_path)
