"""`asymspec doctor` of an installation: every check with a good and a bad one, and how checks are run."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.cli import main as cli
from asymspec_agents.diagnosis.finding import Check, Finding, run_checks
from asymspec_agents.diagnosis.machine import available_bytes, usable_cores
from asymspec_agents.diagnosis.probe import Probe, child, run_probe
from asymspec_agents.errors import WeightsError
from tests.architecture import ROOT
from tests.unit.diagnosed import COMPUTE, FACTS, GPU, VERSIONS, diagnose, models


def test_a_good_installation_has_nothing_to_mend(tmp_path: Path) -> None:
    found = diagnose(tmp_path)
    assert {finding.status for finding in found.values()} == {"ok", "info"}
    assert list(found) == [
        *("python", "package", "base packages", "extra engine", "extra server", "extra smolagents"),
        *("cache", "imports", "threads", "dtype", "gpu", "models", "memory"),
    ]
    assert "pytest" not in found["imports"].found
    assert [name for name, finding in found.items() if finding.status == "info"] == [
        *("extra server", "extra smolagents", "gpu")
    ]
    assert 'pip install --upgrade "asymspec-agents[smolagents]"' in found["extra smolagents"].found


def broken_probe(**facts: Any) -> Any:
    return {"try_modules": lambda modules: Probe({**FACTS, **facts})}


BAD: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("python", "FAIL", "3.9.2", "python3", {"python": (3, 9, 2)}),
    ("package", "warn", "source", "pip install -e .", {"metadata_version": None}),
    ("package", "warn", "1.2.3", "--no-deps asymspec-agents", {"metadata_version": "1.2.2"}),
    ("base packages", "FAIL", "pydantic 1.10", '"asymspec-agents"', {"versions": {"pydantic": "1.10"}}),
    (
        "extra engine",
        "FAIL",
        "missing: gguf; out of range: torch 2.5.1",
        '"asymspec-agents[engine]"',
        {"versions": {"pydantic": "2.8", "torch": "2.5.1"}},
    ),
    (
        "extra server",
        "FAIL",
        "starlette 2.0.1",
        "[server]",
        {"versions": {**VERSIONS, "starlette": "2.0.1"}},
    ),
    ("memory", "warn", "2.0 GB", "--drafter", {"available_bytes": 2 * 10**9}),
    ("models", "warn", "qwen2.5-coder-1.5b", "asymspec models pull", {"models": models("absent")}),
    ("models", "warn", "unfinished", "asymspec models pull", {"models": models("partial")}),
    (
        "cache",
        "warn",
        "need",
        "ASYMSPEC_CACHE",
        {"models": models("absent"), "free_disk_bytes": lambda folder: 10**9},
    ),
    ("threads", "warn", "2 threads on 1 cores", "export OMP_NUM_THREADS=1", {"cores": 1}),
    ("dtype", "warn", "bfloat16", "float32", broken_probe(compute={**COMPUTE, "bfloat16_s": 0.04})),
    ("gpu", "warn", "without CUDA", "pytorch.org", broken_probe(gpu={**GPU, "has_driver": True})),
    ("gpu", "warn", "can't use it", "12.8", broken_probe(gpu={"build": "12.8", "has_driver": True})),
    (
        "torch",
        "FAIL",
        "libgomp",
        'pip install --force-reinstall "torch>=2.6,<2.15"',
        {"try_modules": lambda modules: Probe({}, {"torch": "ImportError: libgomp"})},
    ),
    (
        "gguf",
        "FAIL",
        "signal 11",
        'force-reinstall "gguf>=0.17,<1"',
        {"try_modules": lambda modules: Probe({}, {}, "gguf", "ended Python by signal 11")},
    ),
    (
        "imports",
        "FAIL",
        "trying torch was not done",
        "--timeout",
        {"try_modules": lambda modules: Probe(unfinished="torch")},
    ),
    (
        "smolagents_asymspec",
        "FAIL",
        "1.20",
        '"smolagents>=1.26,<2"',
        {"try_modules": lambda modules: Probe({}, {"smolagents_asymspec": "ConfigurationError: 1.20"})},
    ),
]


@pytest.mark.parametrize(("name", "status", "found", "fix", "changes"), BAD)
def test_what_is_wrong_is_named_with_its_fix(
    tmp_path: Path, name: str, status: str, found: str, fix: str, changes: dict[str, Any]
) -> None:
    finding = diagnose(tmp_path, **changes)[name]
    assert finding.status == status
    assert found in finding.found
    assert fix in str(finding.fix)


def test_a_gpu_makes_the_cpus_formats_unimportant(tmp_path: Path) -> None:
    gpu = {"build": "13.0", "has_driver": True, "name": "A GPU", "free_bytes": 80 * 10**9}
    slow = {**COMPUTE, "bfloat16_s": 1.0}
    found = diagnose(tmp_path, **broken_probe(gpu=gpu, compute=slow))
    assert found["gpu"].found == "A GPU, 80.0 GB free, CUDA 13.0"
    assert found["dtype"].status == "ok"


def test_a_cache_folder_that_cannot_be_is_found_without_making_it(tmp_path: Path) -> None:
    missing = tmp_path / "a" / "b"
    assert "will be made" in diagnose(tmp_path, cache_dir=missing)["cache"].found
    assert not missing.parent.exists()
    (tmp_path / "file").write_text("")
    finding = diagnose(tmp_path, cache_dir=tmp_path / "file" / "models")["cache"]
    assert (finding.status, "no folder" in finding.found) == ("FAIL", True)
    assert finding.fix == "export ASYMSPEC_CACHE=/a/folder/you/can/write"
    assert "cache" not in diagnose(tmp_path, cache_dir=None)


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that refuses even root")
def test_a_cache_folder_that_refuses_files_is_found(tmp_path: Path) -> None:
    assert diagnose(tmp_path, cache_dir=Path("/proc/asymspec"))["cache"].status == "FAIL"


def test_a_check_that_breaks_or_hangs_is_a_finding_and_ends_nothing() -> None:
    def breaks(subject: None) -> Iterator[Finding]:
        raise ZeroDivisionError("by nought")

    def refuses(subject: None) -> Iterator[Finding]:
        raise WeightsError("no such model")

    def hangs(subject: None) -> Iterator[Finding]:
        time.sleep(60)
        yield Finding("never", "ok", "")

    def works(subject: None) -> Iterator[Finding]:
        yield Finding("works", "ok", "fine")

    checks = [
        *(Check("breaks", breaks), Check("refuses", refuses), Check("needy", works, needs=("breaks",))),
        *(Check("needier", works, needs=("needy",)), Check("works", works), Check("hangs", hangs)),
        Check("late", works),
    ]
    found = list(run_checks(checks, None, 0.5))
    assert [(finding.name, finding.status) for finding in found] == [
        *(
            ("breaks", "FAIL"),
            ("refuses", "FAIL"),
            ("works", "ok"),
            ("hangs", "FAIL"),
            ("not checked", "info"),
        )
    ]
    assert "ZeroDivisionError: by nought" in found[0].found
    assert found[1].found == "no such model"
    assert found[3].fix == "give it more time with --timeout 1"
    assert found[4].found.startswith("needy, needier, late;")


def test_the_probe_tells_what_each_module_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "probe_fine": "print('hello')",
        "probe_bad": "raise ImportError('libx.so: no such file')",
        "probe_dead": "import os; os.write(1, b'{\"x\": 1}\\n[1]\\nnoise\\n'); os._exit(3)",
        "probe_slow": "import time; time.sleep(60)",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    probe = run_probe(["probe_fine", "probe_bad", "probe_missing", "probe_dead", "probe_fine"], 60)
    assert probe.facts == {"probe_fine": {}}
    assert probe.errors == {
        "probe_bad": "ImportError: libx.so: no such file",
        "probe_missing": "ModuleNotFoundError: No module named 'probe_missing'",
    }
    assert (probe.culprit, probe.ending) == ("probe_dead", "ended Python with status 3")
    slow = run_probe(["probe_fine", "probe_slow"], 5)
    assert (slow.facts, slow.culprit, slow.unfinished) == ({"probe_fine": {}}, None, "probe_slow")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert run_probe([], 3).culprit == "python"


def test_torch_is_tried_by_computing() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    out = io.StringIO()
    child(["torch"], out)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event.get("begin") for event in events[::2]] == ["torch", "compute", "gpu"]
    facts = events[3]["facts"]
    assert facts["threads"] >= 1
    assert facts["float32_s"] > 0 < facts["bfloat16_s"]
    assert "has_driver" in events[5]["facts"]


def test_a_containers_share_of_the_machine_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) >= 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == usable_cores(tmp_path / "none")
    meminfo = tmp_path / "meminfo"
    assert available_bytes(meminfo, tmp_path) is None
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:  8 kB\n")
    assert available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("5000\n")
    assert available_bytes(meminfo, tmp_path) == 3000


@pytest.mark.full
def test_this_installation_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "integrations")))}
    run = subprocess.run(
        [sys.executable, "-m", "asymspec_agents", "doctor", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    findings = json.loads(run.stdout)
    assert all(finding.keys() == {"name", "status", "found", "fix"} for finding in findings)
    assert {"python", "package", "imports"} <= {finding["name"] for finding in findings}


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
def test_the_time_limit_is_a_number_above_zero(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--timeout", timeout])
    assert "above 0" in capsys.readouterr().err
