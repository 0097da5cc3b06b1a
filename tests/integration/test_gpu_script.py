"""benchmarks/gpu.sh in its small mode, and whether it would notice an engine that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.rule import BlockResult, verify_block
from asymspec_agents.engine import loop
from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.loop import Readers
from asymspec_agents.engine.view import View
from benchmarks import gpu, gpu_speed
from benchmarks.gpu_exact import SETTINGS, ExactPair, Setting, check_setting, is_greedy_text
from benchmarks.gpu_models import GIB, PAIRS, TINY, PairShape, SpeedPair
from benchmarks.gpu_speed import SPEED_ARMS, CoinVerdicts, Measured, Prompt, SpeedArm
from tests.architecture import ROOT

VOCAB = 50


@pytest.fixture(scope="module")
def pair() -> ExactPair:
    return ExactPair.build(torch.device("cpu"), 60)


@pytest.mark.full
def test_the_script_runs_with_torch_and_transformers_alone(tmp_path: Path) -> None:
    for package in ("pydantic", "bm25s", "smolagents"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('blocked')\n", encoding="utf-8")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": paths, "OUT": str(tmp_path / "out")}
    command = [str(ROOT / "benchmarks" / "gpu.sh"), "--small", "--prompts", "64", "--output-tokens", "6"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout[done.stdout.rindex("x Ceiling") :].splitlines()[1:]
    assert len(table) == 4  # the table comes last
    content = json.loads((tmp_path / "out" / "gpu-small.json").read_text("utf-8"))
    assert all(setting["is_exact"] for setting in content["exactness"])
    rows = {row["arm"]: row for row in content["speed"]}
    assert list(rows) == ["Floor", "Ceiling", "symmetric SD", "AsymSpec"]
    assert rows["Floor"]["compressed_tokens"] == 16
    assert rows["Ceiling"]["drafted"] == 0
    assert rows["AsymSpec"]["drafted"] == 3 * rows["AsymSpec"]["blocks"]
    assert all(row["num_tokens"] >= 6 for row in rows.values())
    assert content["provenance"]["torch"] == torch.__version__


@pytest.mark.parametrize("setting", SETTINGS[3::4], ids=lambda setting: setting.name)
def test_the_engine_is_exact(pair: ExactPair, setting: Setting) -> None:
    checked = check_setting(pair, setting, 24, lambda: None)
    assert checked.is_exact, checked
    assert checked.num_accepted
    assert checked.num_refused


def test_a_cache_damaged_by_roll_back_is_noticed(pair: ExactPair, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: KVCache, length: int) -> None:
        rewind(self, length)
        with torch.inference_mode():
            for layer in self.layers:
                layer.values[:, :, layer.length - 1] = 0.0

    rewind = KVCache.rewind
    monkeypatch.setattr(KVCache, "rewind", careless)
    checked = check_setting(pair, Setting("asymspec", MODES["asymspec"], 2), 16, lambda: None)
    assert not checked.is_exact


def test_text_that_is_not_greedy_is_noticed(pair: ExactPair) -> None:
    assert check_setting(pair, SETTINGS[1], 16, lambda: None).is_greedy
    ids = torch.tensor([pair.compressed])
    best, second = pair.verifier.module(input_ids=ids).logits[0, -1].topk(2).indices.tolist()
    assert is_greedy_text(pair, [best])
    assert not is_greedy_text(pair, [second])


def test_a_stage_that_runs_out_of_time_says_so_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def out_of_time(self: gpu.Session, until_s: float) -> None:
        raise gpu.OutOfTimeError

    monkeypatch.setattr(gpu.Session, "check", out_of_time)
    assert gpu.main(["--small", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "stage 1 stopped at its time limit, before plain greedy" in printed
    assert "stage 2 stopped" in printed
    assert json.loads((tmp_path / "gpu-small.json").read_text("utf-8"))["speed"] == []


@pytest.mark.parametrize(
    "arguments", [["--prompts", "3"], ["--acceptance", "1.5"], ["--pair", "70B/8B"], ["--limit-s", "0"]]
)
def test_options_out_of_range_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(arguments)
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(("acceptance", "num_tokens", "num_accepted"), [(0.0, 1, 0), (1.0, 3, 3)])
@pytest.mark.parametrize("num_bonus", [0, 1])
def test_coins_replace_the_verdict(
    acceptance: float, num_tokens: int, num_accepted: int, num_bonus: int
) -> None:
    drafts, verifier = torch.tensor([[4, 5, 6]]), torch.randn(1, 3 + num_bonus, VOCAB)
    logits = torch.randn(1, 3, VOCAB)
    verdicts = CoinVerdicts(acceptance, seed=0)
    result = verdicts(MODES["asymspec"], drafts, logits, -logits, verifier, vocab_size=VOCAB)
    has_bonus = num_bonus if acceptance else 0
    assert result.num_tokens.tolist() == [num_tokens + has_bonus]
    assert result.num_accepted.tolist() == [num_accepted]
    assert result.num_fused.tolist() == [0 if acceptance else 1]
    assert result.num_bonus.tolist() == [has_bonus]
    kept = [4, 5, 6][:num_tokens] + [int(verifier[0, -1].argmax())] * has_bonus
    assert result.tokens.tolist() == [kept + [-1] * (3 + num_bonus - len(kept))]


def test_arms_meet_the_same_refusals_whatever_their_blocks() -> None:
    def refused_places(num_places: int) -> set[int]:
        verdicts, place, refused = CoinVerdicts(0.7, seed=5), 0, set()
        drafts, logits = torch.zeros((1, num_places), dtype=torch.long), torch.zeros(1, num_places, VOCAB)
        while place < 200:
            result = verdicts(MODES["asymspec"], drafts, logits, logits, logits)
            place += int(result.num_tokens)
            refused |= {place - 1} if int(result.num_fused) else set()
        return {place for place in refused if place < 200}

    assert refused_places(2) == refused_places(3)
    assert 40 < len(refused_places(2)) < 80  # of 200, at 0.3


def test_plain_blocks_keep_their_verdict() -> None:
    verifier, no_drafts = torch.randn(1, 1, VOCAB), torch.empty((1, 0), dtype=torch.long)
    ours = CoinVerdicts(0.0, seed=0)(MODES["strict"], no_drafts, None, None, verifier)
    assert torch.equal(ours.tokens, verify_block(MODES["strict"], no_drafts, None, None, verifier).tokens)


@pytest.mark.parametrize("arm", SPEED_ARMS, ids=lambda arm: arm.name)
def test_a_block_stays_on_its_device(arm: SpeedArm, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device a tensor left on the CPU, or a value read by the host, raises."""
    pair = SpeedPair.build(TINY, torch.device("meta"))
    prompt = Prompt.of(1000, 0.25, 1024, seed=0)  # more than one prefill chunk
    readers = Readers(
        View(pair.verifier, prompt.ids(arm.verifying)),
        View(pair.drafter, prompt.ids(arm.drafting)) if arm.drafting else None,
        View(pair.drafter, prompt.ids(arm.base)) if arm.base else None,
    )
    for view in readers.all():
        view.prefill(lambda: None)
    results: list[BlockResult] = []
    monkeypatch.setattr(loop, "_block", lambda result, num_drafted: results.append(result))
    loop.next_block(readers, [], arm.rule, arm.num_draft_tokens, arm.bonus, 1024)
    assert results[0].tokens.is_meta
    assert results[0].tokens.shape == (1, 3 if arm.drafting else 1)


class FakeGPU:
    """A device of so many GiB on which building a pair may run out of memory."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, free_gib: int, out_of_memory: tuple[str, ...]
    ) -> None:
        self.built: list[str] = []

        def build(shape: PairShape, device: object) -> SpeedPair:
            self.built.append(shape.name)
            if shape.name in out_of_memory:
                raise torch.OutOfMemoryError
            return SpeedPair(shape, *tiny)

        def row(pair: SpeedPair, arm: SpeedArm, prompt: Prompt, *rest: object) -> Measured:
            lengths = len(prompt.full), len(prompt.compressed)
            return Measured(arm.name, *lengths, 4, 0.1, 30.0, 0.2, 0.03, 0.02, 2, 0, 0, 1)

        built = SpeedPair.build(TINY, torch.device("meta"))
        tiny = built.verifier, built.drafter
        monkeypatch.setattr(SpeedPair, "build", build)
        monkeypatch.setattr(gpu_speed, "measure", row)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free_gib * GIB, free_gib * GIB))
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)


@pytest.mark.parametrize(
    ("free_gib", "out_of_memory", "built"),
    [
        (139, (), ["32B/4B"]),
        (79, (), ["14B/1.7B"]),
        (79, ("14B/1.7B",), ["14B/1.7B", "8B/0.6B"]),
        (23, (), ["1.7B/0.6B"]),
        (4, (), []),
    ],
)
def test_the_largest_pair_that_fits_is_timed(
    free_gib: int, out_of_memory: tuple[str, ...], built: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    device = FakeGPU(monkeypatch, free_gib, out_of_memory)
    options = gpu.parse_options(["--out", str(tmp_path)])
    session = gpu.Session(options, torch.device("cuda", 0), time.monotonic(), {})
    gpu.time_pairs(session)
    assert device.built == built
    assert len(session.rows) == (12 if built else 0)
    printed = capsys.readouterr().out
    assert printed.count("out of memory") == len(out_of_memory)
    assert printed.count("too large") == list(PAIRS).index(built[0]) if built else len(PAIRS)


@pytest.mark.parametrize("shape", PAIRS.values(), ids=PAIRS)
def test_sizes_are_those_of_the_built_models(shape: PairShape) -> None:
    from transformers import AutoModelForCausalLM

    for part in (shape.verifier, shape.drafter):
        with torch.device("meta"):
            module = AutoModelForCausalLM.from_config(part.config(), dtype=torch.bfloat16)
        assert sum(weight.numel() for weight in module.parameters()) == part.num_parameters
        assert all(weight.dtype == torch.bfloat16 for weight in module.parameters())
    assert shape.needed_bytes(16384) > shape.needed_bytes(4096) > shape.weight_bytes
