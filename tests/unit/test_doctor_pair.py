"""`asymspec doctor --verifier … --drafter …`: whether two folders make a pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the extra engine is not installed")

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from asymspec_agents.cli import main as cli
from asymspec_agents.diagnosis.finding import Finding, run_checks
from asymspec_agents.diagnosis.pair import ChosenPair
from asymspec_agents.diagnosis.pair_checks import PAIR_CHECKS
from asymspec_agents.engine.load import load_tokenizer
from tests.engine.tiny_folder import MAX_POSITIONS, byte_tokenizer, save_pair
from tests.vision.pairs import pair_folders

PLENTY = 10**12
PAIR_NAMES = ["verifier", "drafter", "vocabulary", "size", "reach", "memory"]


def diagnose(verifier: Path, drafter: Path, available_bytes: int | None = PLENTY) -> dict[str, Finding]:
    findings = list(run_checks(PAIR_CHECKS, ChosenPair(str(verifier), str(drafter), available_bytes), 60))
    for finding in findings:
        assert (finding.fix is not None) == (finding.status in ("warn", "FAIL")), finding
    return {finding.name: finding for finding in findings}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return save_pair(tmp_path)


def test_a_pair_that_works_has_a_line_for_everything(pair: tuple[Path, Path]) -> None:
    found = diagnose(*pair)
    assert list(found) == PAIR_NAMES
    assert {name for name, finding in found.items() if finding.status != "ok"} == {"size"}  # as large
    assert "Qwen2ForCausalLM" in found["verifier"].found
    assert f"up to {MAX_POSITIONS:,} tokens" in found["drafter"].found
    assert found["vocabulary"].found == f"the same in both, {len(load_tokenizer(pair[0]))} tokens"


def test_a_model_that_is_not_here_fails_and_what_needs_it_is_left_out(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    found = diagnose(pair[0], tmp_path / "nowhere")
    assert found["verifier"].status == "ok"
    assert found["drafter"].status == "FAIL"
    assert "nowhere" in found["drafter"].found
    assert "vocabulary, size, reach, memory" in found["not checked"].found


def test_an_unreadable_configuration_is_the_models_fault(pair: tuple[Path, Path]) -> None:
    (pair[1] / "config.json").write_text('{"model_type": "made-up"}')
    found = diagnose(*pair)
    assert found["drafter"].status == "FAIL"
    assert "made-up" in found["drafter"].found


def test_vocabularies_that_differ_are_told_by_a_token(pair: tuple[Path, Path]) -> None:
    byte_tokenizer(["more"]).save_pretrained(pair[1])
    found = diagnose(*pair)
    assert found["vocabulary"].status == "warn"
    assert found["vocabulary"].found == (
        "259 and 260 tokens, 258 of them the same; "
        "'more' is number 258 in the drafter's and missing in the verifier's; a vocabulary map would pair "
        "259 tokens: 100% of the verifier's, and 100% of a sample text's bytes"
    )
    assert "--vocab-map auto" in str(found["vocabulary"].fix)


def test_vocabularies_that_no_map_can_pair_fail(pair: tuple[Path, Path]) -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(pair[1])
    found = diagnose(*pair)["vocabulary"]
    assert found.status == "FAIL"
    assert "no vocabulary map is possible" in found.found


def test_a_drafter_that_lacks_tokens_of_the_verifier_needs_a_map_too(pair: tuple[Path, Path]) -> None:
    byte_tokenizer(["more"]).save_pretrained(pair[0])
    assert diagnose(*pair)["vocabulary"].status == "warn"


def test_a_drafter_that_sees_may_have_tokens_of_its_own() -> None:
    verifier, drafter = pair_folders("smolvlm")
    found = diagnose(verifier, drafter)
    assert found["vocabulary"].status == "ok"
    assert "16 more in the drafter's, which sees images" in found["vocabulary"].found
    found = diagnose(drafter, verifier)
    assert found["verifier"].status == "FAIL"
    assert "a verifier reads texts only" in found["verifier"].found


@pytest.fixture
def seeing(tmp_path: Path) -> tuple[Path, Path]:
    """A verifier and a copy of its drafter that sees, to be spoiled."""
    verifier, drafter = pair_folders("qwen2_vl")
    return verifier, Path(shutil.copytree(drafter, tmp_path / "seeing"))


def test_a_drafter_that_sees_needs_its_image_processor(seeing: tuple[Path, Path]) -> None:
    assert diagnose(*seeing)["drafter"].status == "ok"
    (seeing[1] / "preprocessor_config.json").unlink()
    found = diagnose(*seeing)["drafter"]
    assert found.status == "FAIL"
    assert "has no image processor that can be used here" in found.found
    assert "the image processor's files" in str(found.fix)


def test_a_drafter_that_sees_takes_no_map(pair: tuple[Path, Path]) -> None:
    found = diagnose(pair[0], pair_folders("qwen2_vl")[1])["vocabulary"]
    assert found.status == "FAIL"
    assert "a drafter that sees images takes no vocabulary map" in found.found
    assert "vocab-map" not in str(found.fix)


def test_a_model_that_sees_in_an_unknown_way_fails(seeing: tuple[Path, Path]) -> None:
    path = seeing[1] / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"model_type": "llava_next"}))
    for verifier, drafter, role in ((*seeing, "drafter"), (*seeing[::-1], "verifier")):
        found = diagnose(verifier, drafter)[role]
        assert found.status == "FAIL"
        assert "of type llava_next" in found.found
    path.write_text(json.dumps(config | {"model_type": "mllama"}))  # whose configuration has other fields
    found = diagnose(*seeing)["drafter"]
    assert found.status == "FAIL"
    assert "cannot load a model from" in found.found


def test_no_map_is_built_for_a_drafter_that_sees(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeing, path = str(pair_folders("qwen2_vl")[1]), tmp_path / "map.json"
    assert cli.main(["vocab", "build", str(pair[0]), seeing, "-o", str(path)]) == 2
    assert "works without a map only" in capsys.readouterr().err
    assert not path.exists()


def test_one_model_in_both_roles_is_a_control(pair: tuple[Path, Path]) -> None:
    assert diagnose(pair[0], pair[0])["size"].status == "info"


def test_a_small_drafter_is_fine(pair: tuple[Path, Path]) -> None:
    with (pair[0] / "more.safetensors").open("wb") as file:
        file.truncate(10 * (pair[1] / "model.safetensors").stat().st_size)
    assert diagnose(*pair)["size"].status == "ok"


def test_a_drafter_that_reads_less_is_warned_of(pair: tuple[Path, Path]) -> None:
    path = pair[1] / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 64}))
    found = diagnose(*pair)["reach"]
    assert found.status == "warn"
    assert f"compressed view up to {MAX_POSITIONS:,} tokens, full view up to 64" in found.found


@pytest.mark.parametrize(("available", "status"), [(None, "info"), (10**6, "warn"), (PLENTY, "ok")])
def test_the_pair_must_fit(pair: tuple[Path, Path], available: int | None, status: str) -> None:
    assert diagnose(*pair, available)["memory"].status == status


def test_the_command_checks_the_installation_and_the_pair(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["doctor", "--verifier", str(pair[0]), "--drafter", str(pair[1]), "--json"])
    names = [finding["name"] for finding in json.loads(capsys.readouterr().out)]
    assert names[0] == "python"
    assert names[-len(PAIR_NAMES) :] == PAIR_NAMES
    assert "models" not in names  # of the default pair
    assert code in (0, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--verifier", "a"], "--drafter is missing"),
        (["--drafter", "a"], "--verifier is missing"),
        (["http://127.0.0.1:1", "--verifier", "a", "--drafter", "b"], "the server at URL names its own"),
    ],
)
def test_options_that_make_no_pair_are_refused(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor", *options]) != 0
    assert told in capsys.readouterr().err
