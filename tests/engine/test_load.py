"""From folders to an engine: what is loaded, and what is refused with which error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from transformers import (
    BartConfig,
    BartForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging as transformers_logging

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.load import load_pair, load_tokenizer
from asymspec_agents.engine.model import load_model
from asymspec_agents.errors import ConfigurationError, IncompatibleModelsError, WeightsError
from asymspec_agents.trace import MemoryRecorder

from .tiny_folder import ask, byte_tokenizer, random_backend, save_model, save_pair

CPU: dict[str, Any] = {"dtype": "float32", "device": "cpu"}
SMALL = {"vocab_size": 272, "hidden_size": 16}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return save_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def folder(pair: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the verifier's folder to spoil."""
    return Path(shutil.copytree(pair[0], tmp_path / "model"))


def test_a_pair_is_loaded_by_its_folders(pair: tuple[Path, Path]) -> None:
    recorder = MemoryRecorder()
    options = EngineOptions(max_verifier_tokens=100)
    backend = LocalBackend.load(*map(str, pair), **CPU, options=options, recorder=recorder)
    assert backend.capabilities.verifier == str(pair[0])
    assert backend.capabilities.drafter == str(pair[1])
    assert backend.capabilities.max_verifier_tokens == 100
    assert backend.engine.vocab_size == len(load_tokenizer(pair[0])) < 272  # the models' is padded
    assert backend.generate(ask()).content == random_backend().generate(ask()).content
    assert [event.event for event in recorder.events][:2] == ["request", "block"]
    models = backend.engine.models
    assert models["verifier"] is not models["drafter"]
    assert {p.dtype for p in models["verifier"].module.parameters()} == {torch.float32}
    assert not models["verifier"].module.training


def test_one_folder_twice_is_one_model(pair: tuple[Path, Path], tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(pair[0])
    for other in (pair[0], link, str(pair[0]) + "/../verifier"):
        models = load_pair(pair[0], other, **CPU).engine.models
        assert models["verifier"] is models["drafter"]


def test_different_tokenizers_are_incompatible(pair: tuple[Path, Path], folder: Path) -> None:
    byte_tokenizer(["more"]).save_pretrained(folder)
    with pytest.raises(
        IncompatibleModelsError, match=r"^big and small have different tokenizers; choose a dr"
    ):
        load_pair(pair[0], folder, verifier_name="big", drafter_name="small", **CPU)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _change_tensor(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        change(tensors)
        safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return spoil


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (shutil.rmtree, "cannot load"),
        (_remove("config.json"), "cannot load"),
        (_remove("model.safetensors"), "cannot load a causal language model"),
        (_write("config.json", "{"), "cannot load"),
        (_write("config.json", '{"model_type": "unheard-of"}'), "cannot load"),
        (_write("model.safetensors", "version https://git-lfs.github.com/spec/v1"), "cannot load"),
        (_cut, "cannot load a causal language model"),
        (
            _change_tensor(lambda t: t.pop("model.layers.1.mlp.up_proj.weight")),
            "lacks 1 of the .*up_proj.weight",
        ),
        (_change_tensor(lambda t: t.update({"lm_head.weight": torch.ones(9, 32)})), "cannot load"),
    ],
    ids=[
        "no folder",
        "no config",
        "no weights",
        "bad config",
        "unknown",
        "pointer",
        "cut",
        "missing",
        "shape",
    ],
)
def test_broken_folders_are_weights_errors(folder: Path, spoil: Callable[[Path], object], text: str) -> None:
    """Above all a model is never completed with random weights."""
    spoil(folder)
    with pytest.raises(WeightsError, match=f"(?s){text}"):
        load_model(folder, **CPU)


def test_a_folder_without_tokenizer_is_a_weights_error(pair: tuple[Path, Path], folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).unlink()
    for broken in (folder, folder / "nothing"):
        with pytest.raises(WeightsError, match="cannot load a tokenizer from"):
            load_tokenizer(broken)
    with pytest.raises(WeightsError, match="cannot load a tokenizer from"):
        load_pair(pair[0], folder, **CPU)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsError, match="cannot load a tokenizer from"):
        load_tokenizer(folder)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: MambaForCausalLM(MambaConfig(**SMALL, num_hidden_layers=1, state_size=4)),
            "cannot be rolled back",
        ),
        (
            lambda: T5ForConditionalGeneration(
                T5Config(vocab_size=272, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
            ),
            "is an encoder-decoder; a decoder-only model is needed",
        ),
        (
            lambda: BartForCausalLM(
                BartConfig(
                    vocab_size=272,
                    d_model=16,
                    decoder_layers=1,
                    decoder_ffn_dim=16,
                    decoder_attention_heads=2,
                    is_encoder_decoder=True,
                )
            ),
            "is an encoder-decoder",
        ),
    ],
    ids=["recurrent", "t5", "bart"],
)
def test_models_the_engine_cannot_run(tmp_path: Path, make: Callable[[], PreTrainedModel], text: str) -> None:
    folder = save_model(tmp_path / "other", make(), byte_tokenizer())
    config = json.loads((folder / "config.json").read_text())
    if "encoder" in text:
        (folder / "config.json").write_text(json.dumps({**config, "is_encoder_decoder": True}))
    with pytest.raises(IncompatibleModelsError, match=f"^my-model .*{text}"):
        load_pair(folder, folder, verifier_name="my-model", **CPU)


@pytest.mark.parametrize("dtype", ["float33", "int8", "tensor", ""])
def test_an_unknown_dtype_is_a_configuration_error(pair: tuple[Path, Path], dtype: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^dtype='{dtype}'"):
        load_model(pair[0], dtype=dtype, device="cpu")


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_an_unknown_device_is_a_configuration_error(pair: tuple[Path, Path], device: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^device='{device}': .+"):
        load_model(pair[0], dtype="float32", device=device)


@pytest.mark.parametrize("was_enabled", [True, False])
def test_loading_draws_no_bar_and_leaves_the_setting(
    pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str], was_enabled: bool
) -> None:
    before = transformers_logging.is_progress_bar_enabled()
    hook = transformers_logging.set_tqdm_hook(None)
    made: list[Any] = []

    def users(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made.append(args)
        return factory(*args, **kwargs)

    try:
        if was_enabled:
            transformers_logging.enable_progress_bar()
        else:
            transformers_logging.disable_progress_bar()
        transformers_logging.set_tqdm_hook(users)
        load_model(pair[0], **CPU)
        assert capfd.readouterr().err == ""
        assert transformers_logging.is_progress_bar_enabled() is was_enabled
        with pytest.raises(WeightsError):
            load_model(pair[0] / "nothing", **CPU)
        assert transformers_logging.set_tqdm_hook(None) is users
        assert made == []
    finally:
        transformers_logging.set_tqdm_hook(hook)
        if before:
            transformers_logging.enable_progress_bar()
        else:
            transformers_logging.disable_progress_bar()
