"""What vLLM is told of a pair's vocabularies before it starts; vLLM itself is not needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.cli import main as cli
from asymspec_agents.cli import vllm as command
from asymspec_agents.decoding.vocab_file import save_map
from asymspec_agents.errors import ConfigurationError, IncompatibleModelsError
from tests.decoding.made_tokenizers import made, transcriber
from vllm_asymspec.config import PluginConfig
from vllm_asymspec.launch import Launch
from vllm_asymspec.offline import engine_arguments
from vllm_asymspec.vocabularies import Vocabularies


def model(folder: Path, family: str, num_rows: int, *, is_nested: bool = False) -> str:
    """A folder with a tokenizer and a configuration that names its rows."""
    made(family).save_pretrained(folder)
    config: dict[str, Any] = {"vocab_size": num_rows, "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps({"text_config": config} if is_nested else config))
    return str(folder)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    return model(tmp_path / "large", "words", 640), model(tmp_path / "small", "digits", 448)


def test_a_pair_with_other_rows_runs_on_the_first_runner_in_turn(folders: tuple[str, str]) -> None:
    vocabularies = Vocabularies.of(*folders, "auto")
    assert vocabularies.needs_first_runner
    arguments = Launch(*folders, vocabularies=vocabularies, arguments=("--port", "1")).vllm_arguments()
    assert "--no-async-scheduling" in arguments
    speculative = json.loads(arguments[arguments.index("--speculative-config") + 1])
    additional = json.loads(arguments[arguments.index("--additional-config") + 1])
    assert speculative["use_heterogeneous_vocab"] is True
    assert additional == {"asymspec": {"vocab_map": "auto"}}
    offline = engine_arguments(folders[1], vocabularies=vocabularies)
    assert offline["async_scheduling"] is False
    assert offline["speculative_config"]["use_heterogeneous_vocab"] is True
    assert offline["additional_config"] == additional
    own = Launch(*folders, vocabularies=vocabularies, arguments=("--no-async-scheduling",)).vllm_arguments()
    assert own.count("--no-async-scheduling") == 1


def test_asynchronous_scheduling_of_such_a_pair_is_refused(folders: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"--async-scheduling.*pad-drafter"):
        Launch(*folders, vocabularies=Vocabularies.of(*folders, "auto"), arguments=("--async-scheduling",))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_pair_with_as_many_rows_runs_on_either_runner(tmp_path: Path, is_nested: bool) -> None:
    large = model(tmp_path / "large", "words", 640)
    small = model(tmp_path / "small", "digits", 640, is_nested=is_nested)
    vocabularies = Vocabularies.of(large, small, "auto")
    assert not vocabularies.needs_first_runner
    arguments = Launch(large, small, vocabularies=vocabularies).vllm_arguments()
    assert "--no-async-scheduling" not in arguments
    assert "use_heterogeneous_vocab" not in " ".join(arguments)
    assert Vocabularies.of(large, small, None) == Vocabularies()


def test_rows_of_a_hub_name_are_not_known(folders: tuple[str, str]) -> None:
    assert Vocabularies.of("org/large", folders[1], None) == Vocabularies()
    assert Vocabularies.of("org/large", folders[1], "auto").needs_first_runner


def test_other_rows_and_no_map_are_an_error_that_names_both_ways_out(folders: tuple[str, str]) -> None:
    with pytest.raises(IncompatibleModelsError, match=r"640.*448.*pad-drafter.*--vocab-map auto"):
        Vocabularies.of(*folders, None)


def test_a_map_is_checked_before_anything_starts(folders: tuple[str, str], tmp_path: Path) -> None:
    right, wrong, broken = (tmp_path / f"{name}.json" for name in ("right", "wrong", "broken"))
    save_map(transcriber("words", "digits").vocab_map, right)
    save_map(transcriber("words", "pieces").vocab_map, wrong)
    broken.write_text("{}")
    assert Vocabularies.of(*folders, right).settings == {"vocab_map": str(right)}
    with pytest.raises(IncompatibleModelsError, match="another vocabulary"):
        Vocabularies.of(*folders, wrong)
    made = transcriber("words", "digits").vocab_map
    save_map(replace(made, verifier_ids=(), drafter_ids=()), wrong)
    with pytest.raises(IncompatibleModelsError, match="no token in common"):
        Vocabularies.of(*folders, wrong)
    for path in (broken, tmp_path / "missing.json", tmp_path / "map.pickle"):
        with pytest.raises(ConfigurationError, match="vocab_map"):
            Vocabularies.of(*folders, path)


@pytest.mark.parametrize("value", ["", 5, ["auto"]])
def test_the_setting_is_a_path_or_auto(value: object) -> None:
    with pytest.raises(ConfigurationError, match="vocab_map"):
        PluginConfig.of({"asymspec": {"vocab_map": value}})


def test_the_command(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_check_installed", lambda: None)
    line = ["vllm", "serve", folders[0], "--drafter", folders[1], "--print-command"]
    assert cli.main([*line, "--vocab-map", "auto"]) == 0
    told = capsys.readouterr()
    assert "use_heterogeneous_vocab" in told.out
    assert '"vocab_map": "auto"' in told.out
    assert "--no-async-scheduling" in told.out
    assert "pad-drafter" in told.err
    assert cli.main(line) != 0
    assert "--vocab-map" in capsys.readouterr().err
