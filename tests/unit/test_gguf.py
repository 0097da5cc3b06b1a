"""Converting GGUF: the weights, the configuration and the tokenizer come out as the authors publish them."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import gguf
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from asymspec_agents.engine.gguf import convert_gguf
from asymspec_agents.engine.gguf_family import repair_chat_template
from asymspec_agents.errors import WeightsError
from tests.tiny_gguf import tiny_model, tokens, write_gguf


@pytest.fixture(scope="module", params=["qwen2", "smollm"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(family)
    write_gguf(path / "model.gguf", family, tiny_model(family))
    convert_gguf(path / "model.gguf", path / "converted", report=lambda done, total: None)
    return path / "converted"


def test_weights_are_exact_and_tied(family: str, folder: Path) -> None:
    original = tiny_model(family)
    converted = AutoModelForCausalLM.from_pretrained(folder)
    assert converted.dtype == torch.bfloat16
    assert converted.lm_head.weight.data_ptr() == converted.model.embed_tokens.weight.data_ptr()
    state = converted.state_dict()
    for name, parameter in original.named_parameters():  # the output's weights, not the coarser embeddings
        assert torch.equal(parameter, state[name].float()), name
    ids = torch.arange(2, 40)[None]
    assert torch.equal(original(ids).logits, converted.float()(ids).logits)


def test_configuration_is_the_published_one(family: str, folder: Path) -> None:
    config = AutoModelForCausalLM.from_pretrained(folder).config
    original = tiny_model(family).config
    assert config.rope_parameters == original.rope_parameters
    assert config.rms_norm_eps == original.rms_norm_eps
    assert config.max_position_embeddings == original.max_position_embeddings
    generation = json.loads((folder / "generation_config.json").read_text("utf-8"))
    assert generation.pop("do_sample") is False
    assert set(generation) <= {"eos_token_id", "pad_token_id", "bos_token_id"}
    names = [token for token, _ in tokens(family)]
    if family == "qwen2":
        assert [names[index] for index in generation["eos_token_id"]] == ["<|im_end|>", "<|endoftext|>"]
        assert names[generation["pad_token_id"]] == "<|endoftext|>"
        assert "bos_token_id" not in generation
    else:
        assert names[generation["eos_token_id"]] == "<|im_end|>"


def test_tokenizer_knows_what_is_special(family: str, tokenizer: PreTrainedTokenizerBase) -> None:
    in_order = [token for token, kind in tokens(family) if kind != 5]
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == in_order  # unused ids are unknown to it
    assert tokenizer.eos_token == "<|im_end|>"
    text = "<|im_start|>a<tool_call>b</tool_call><|fim_prefix|>c<|im_end|>"
    visible = tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True)
    if family == "qwen2":
        assert tokenizer.bos_token is None
        assert tokenizer.pad_token == "<|endoftext|>"
        assert visible == "a<tool_call>b</tool_call><|fim_prefix|>c"
        assert len(tokenizer("<tool_call>").input_ids) == 1
    else:
        assert tokenizer.decode(tokenizer("<repo_name>x").input_ids, skip_special_tokens=True) == "x"
        assert tokenizer.convert_ids_to_tokens(tokenizer("12").input_ids) == ["1", "2"]  # digits stand alone
    assert tokenizer.apply_chat_template([{"content": "hi"}], tokenize=False) == "<|im_start|>hi<|im_end|>"


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return loaded


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    normalizer = tokenizer.backend_tokenizer.normalizer  # its Unicode may be newer than Python's
    expected = text if normalizer is None else normalizer.normalize_str(text)
    assert tokenizer.decode(tokenizer(text).input_ids) == expected


def test_only_qwen_composes_characters(family: str, tokenizer: PreTrainedTokenizerBase) -> None:
    text = "e\u0301 \u212b ﬁ"
    expected = unicodedata.normalize("NFC", text) if family == "qwen2" else text
    assert tokenizer.decode(tokenizer(text).input_ids) == expected


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", "smollm", tiny_model("smollm"))
    events: list[tuple[int, int]] = []
    convert_gguf(tmp_path / "model.gguf", tmp_path / "out", report=lambda *event: events.append(event))
    assert events == sorted(events)
    assert events[0][0] == 0
    assert events[-1][0] == events[-1][1] > 0


def test_other_families_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.add_tokenizer_pre("qwen2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(
        WeightsError, match="'mamba' model with tokenizer 'qwen2' is not known; known: 'qwen2'"
    ):
        convert_gguf(tmp_path / "other.gguf", tmp_path / "out", report=lambda done, total: None)
    assert not (tmp_path / "out").exists()


def test_a_file_that_does_not_fill_the_model_is_refused(tmp_path: Path) -> None:
    model = tiny_model("qwen2")
    del model.model.layers[1].mlp.up_proj  # type: ignore[union-attr,index]
    write_gguf(tmp_path / "model.gguf", "qwen2", model)
    with pytest.raises(
        WeightsError, match=r"does not fill the qwen2 model: model\.layers\.1\.mlp\.up_proj\.weight"
    ):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out", report=lambda done, total: None)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_garbage_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(WeightsError, match="not a readable GGUF file"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out", report=lambda done, total: None)


def test_only_the_doubled_braces_of_the_tool_prompt_are_repaired() -> None:
    right = r'{{- "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n" }}{{ message.content }}'
    doubled = (
        r'{{- "{{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n" }}{{ message.content }}'
    )
    assert repair_chat_template(doubled) == right
    assert repair_chat_template(right) == right
