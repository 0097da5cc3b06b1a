"""The benchmark scripts of LLMLingua-2 run from end to end on checkpoints without any training."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import huggingface_hub
import pytest
import torch

from benchmarks import llmlingua_quality
from benchmarks.passages import made_up

RECORDS = [
    {
        "input": "Who sold the ledgers?",
        "context": "\n".join(f"Passage {n}:\nTitle {n}\n{text}" for n, text in enumerate(made_up(8), 1)),
        "answers": ["the museum", "Museum"],
        "supporting_passages": supporting,
    }
    for supporting in ([2, 5], None)
]


def test_quality(checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    output = tmp_path / "out.json"
    llmlingua_quality.main(
        [str(checkpoints["bert"]), "--data", str(data), "--rates", "0.5", "0.2", "--output", str(output)]
    )
    assert capsys.readouterr().out.splitlines()[-1] == output.read_text().strip()
    results = json.loads(output.read_text())["results"]
    assert set(results) == {"llmlingua2", "llmlingua2 protected", "extractive", "headtail"}
    for name in ("llmlingua2", "headtail"):
        by_rate = results[name]
        assert by_rate["0.5"]["by_itself"]["mean"] == 1
        assert 0.3 < by_rate["0.5"]["kept_tokens"]["mean"] <= 0.5
        assert by_rate["0.2"]["supporting_words"]["mean"] < by_rate["0.5"]["supporting_words"]["mean"]
        assert by_rate["0.5"]["supporting_words"]["n"] == 1
        assert by_rate["0.5"]["kept_tokens"]["n"] == by_rate["0.5"]["answers_over_headtail"]["n"] == 2
    assert results["headtail"]["0.2"]["answers_over_headtail"]["interval"] == [0, 0]
    assert results["llmlingua2 protected"]["0.2"]["by_itself"]["mean"] == 0


def test_quality_reads_the_hubs_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(name: str, file: str, **options: str) -> str:
        asked.append((name, file, options))
        with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
            for task in llmlingua_quality.LONGBENCH:
                archive.writestr(f"data/{task}.jsonl", "".join(json.dumps(one) + "\n" for one in RECORDS))
        return str(tmp_path / "data.zip")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    files = llmlingua_quality.longbench()
    assert asked == [("THUDM/LongBench", "data.zip", {"repo_type": "dataset"})]
    assert [file.name for file in files] == ["hotpotqa.jsonl", "musique.jsonl", "2wikimqa.jsonl"]
    assert llmlingua_quality.records(files, 1) == [RECORDS[0]] * 3


def test_figures_are_what_they_are_called() -> None:
    assert llmlingua_quality.has_answer("It was G. Stanley Hall.", ["stanley hall"])
    assert not llmlingua_quality.has_answer("No, it was not.", ["no"])
    assert not llmlingua_quality.has_answer("Stanley went to the hallway", ["Stanley Hall"])
    assert llmlingua_quality.share_kept("red apples", ["red, red apples and pears"]) == pytest.approx(2 / 5)
    assert llmlingua_quality.passages("Passage 1:\na\nb\nPassage 2:\nc") == ["a\nb", "c"]
    assert llmlingua_quality.summary([None, 1.0, 1.0]) == {"mean": 1.0, "interval": [1.0, 1.0], "n": 2}


@pytest.mark.full
def test_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prompt_compressor = pytest.importorskip("llmlingua.prompt_compressor")
    from benchmarks import llmlingua_speed

    monkeypatch.setattr(prompt_compressor, "seed_everything", lambda seed: None)
    monkeypatch.setattr(llmlingua_speed, "LIMIT_S", 0.3)
    output = tmp_path / "out.json"
    num_threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        llmlingua_speed.main(
            f"--repeats 2 --layers 1 --hidden 64 --vocab 3000 --chars 60000 --output {output}".split()
        )
    torch.set_num_threads(num_threads)
    document = json.loads(output.read_text())
    results, waits = document["results"], document["event_loop"]
    assert waits["every word, small"]["compressor"] == "llmlingua2"
    assert all(one["longest_pause_ms"] > 0 and one["tokens_after"] <= 2_000 for one in waits.values())
    assert set(results) == set(llmlingua_speed.LENGTHS)
    assert all(len(result["ours_cpu_s"]) == 2 for result in results.values())
    assert "one chunk" in capsys.readouterr().out
