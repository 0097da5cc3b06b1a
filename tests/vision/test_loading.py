"""Which pairs load: a text verifier and a drafter that sees, of one vocabulary and of a known family."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.load import load_pair
from asymspec_agents.engine.vision.kinds import kind_of
from asymspec_agents.engine.vision.load import check_vocabulary, load_looker
from asymspec_agents.engine.vision.model import SeeingModel
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.errors import IncompatibleModelsError, MissingDependencyError, WeightsError
from tests.engine.tiny_folder import byte_tokenizer

from .families import FAMILIES, family_folder, tokenizer_of
from .pairs import pair_folders, seeing_pair

CPU: dict[str, Any] = {"dtype": "float32", "device": "cpu"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a drafter's folder, to be spoiled."""
    return Path(shutil.copytree(pair_folders("qwen2_vl")[1], tmp_path / "drafter"))


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("family", FAMILIES)
def test_families_that_are_supported(family: str) -> None:
    pair = seeing_pair(family)
    assert isinstance(pair.drafter, SeeingModel)
    assert pair.prompts.template.shows_images
    assert pair.prompts.template.shows_tools
    assert pair.backend.engine.vocab_size == len(tokenizer_of(None)) < len(tokenizer_of(family))
    assert pair.drafter.max_positions == 4_096


def test_a_verifier_that_sees_is_refused() -> None:
    verifier, drafter = pair_folders("qwen2_vl")
    for first, second in ((drafter, verifier), (drafter, drafter)):
        with pytest.raises(
            IncompatibleModelsError, match=r"^drafter is a vision-language model; a verifier reads"
        ):
            load_pair(first, second, **CPU)


def test_other_families_are_named(folder: Path) -> None:
    change(folder, "config.json", model_type="llava_next")
    with pytest.raises(
        IncompatibleModelsError,
        match=r"^mine is a vision-language model of type llava_next; .* type qwen2_vl, qw",
    ):
        load_pair(pair_folders("qwen2_vl")[0], folder, drafter_name="mine", **CPU)


def test_another_vocabulary_is_refused(folder: Path) -> None:
    byte_tokenizer().save_pretrained(folder)
    other = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = other["model"]["vocab"]
    vocabulary["!"], vocabulary['"'] = vocabulary['"'], vocabulary["!"]
    (folder / "tokenizer.json").write_text(json.dumps(other))
    with pytest.raises(
        IncompatibleModelsError,
        match=r"have different vocabularies \(token '[!\"]', number \d+ .*takes no vocabulary map",
    ):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)


def test_a_tokenizer_without_image_tokens_is_refused(folder: Path) -> None:
    tokenizer_of(None).save_pretrained(folder)
    with pytest.raises(IncompatibleModelsError, match=r"the drafter's tokenizer has no image token"):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)


def test_a_folder_without_image_processor_is_refused(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(WeightsError, match=r"has no image processor that can be used here"):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)


@pytest.mark.parametrize("text", ["{not json", "[]", '{"image_processor_type": 5}'])
def test_an_image_processor_that_cannot_be_made_is_refused(folder: Path, text: str) -> None:
    (folder / "preprocessor_config.json").write_text(text)
    with pytest.raises(WeightsError, match=r"has no image processor that can be used here"):
        load_looker(folder, tokenizer_of("qwen2_vl"), name="mine", options=VisionOptions())


def test_the_token_that_differs_is_the_verifiers_first() -> None:
    drafter = {"a": 0, "b": 2, "c": 1}
    with pytest.raises(IncompatibleModelsError, match=r"token 'b', number 1 of the verifier's"):
        check_vocabulary({"c": 2, "b": 1, "a": 0}, drafter, ("large", "small"))


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "5", "{", '"text"', "null", "{}", '{"model_type": "mllama", "vision_config": 5}'),
        *('{"model_type": []}', '{"model_type": "qwen2_vl", "text_config": []}'),
        '{"model_type": "qwen2", "num_hidden_layers": "many"}',
        '{"model_type": "qwen2", "rope_scaling": 5}',
        '{"model_type": "qwen2", "hidden_size": null}',
    ],
)
def test_a_configuration_that_is_broken_is_told_in_one_line(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises((WeightsError, IncompatibleModelsError)) as told:
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)
    assert "drafter" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("tokenizer.json", text) for text in ("[]", "{", "5", '{"model": 5}')),
        *(("tokenizer_config.json", text) for text in ("[]", "{", "5", '{"eos_token": 5}')),
        *(("generation_config.json", text) for text in ("[]", "5", '{"eos_token_id": "x"}')),
    ],
)
def test_other_files_that_are_broken_are_told_in_one_line(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises((WeightsError, IncompatibleModelsError)) as told:
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)
    assert "drafter" in str(told.value)
    assert "\n" not in str(told.value)


def test_another_models_image_processor_is_refused(folder: Path) -> None:
    change(folder, "preprocessor_config.json", patch_size=8)
    with pytest.raises(
        IncompatibleModelsError, match=r"its tower cannot read an image|tokens; the image processor"
    ):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)
    change(folder, "preprocessor_config.json", patch_size=4, merge_size=1)
    with pytest.raises(IncompatibleModelsError):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)


def test_a_tower_that_is_not_supported_is_named() -> None:
    config = copy.deepcopy(seeing_pair("llava").oracle.config)
    config.vision_config.model_type = "pixtral"
    with pytest.raises(
        IncompatibleModelsError,
        match=r"the tower pixtral is not supported; towers: clip_vision_model, siglip",
    ):
        kind_of(config, tokenizer_of("llava"))


def test_missing_weights_are_never_made_up(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"cannot load"):
        load_pair(pair_folders("qwen2_vl")[0], folder, **CPU)


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[images\]"):
        load_pair(*pair_folders("qwen2_vl"), **CPU)


def test_an_end_that_the_verifier_lacks_is_its_own(tmp_path: Path) -> None:
    """SmolVLM ends turns with a token that SmolLM2 does not have."""
    folder = family_folder(tmp_path / "drafter", "smolvlm")
    own = tokenizer_of("smolvlm").convert_tokens_to_ids("<global-img>")
    for name in ("config.json", "generation_config.json"):
        change(folder, name, eos_token_id=own)
    pair = load_pair(pair_folders("smolvlm")[0], folder, **CPU)
    model, end = pair.engine.models["drafter"], tokenizer_of(None).eos_token_id
    assert model.eos_token_ids == {own, end}
    ids = torch.tensor([[5, 9, 200]])
    plain = seeing_pair("smolvlm").drafter.forward(ids, KVCache(), 3)[0]
    folded = model.forward(ids, KVCache(), 3)[0]
    wanted = torch.logaddexp(plain[:, end], plain[:, own])
    torch.testing.assert_close(folded[:, end], wanted)
    others = [token for token in range(288) if token != end]
    torch.testing.assert_close(folded[:, others], plain[:, others])
