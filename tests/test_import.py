"""The base installation: everything but optional work runs with only pydantic and httpx present."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from asymspec_agents.cli.main import COMMANDS
from tests.architecture import ROOT

Run = Callable[[str], subprocess.CompletedProcess[str]]


def _installed_with(*names: str) -> Iterator[metadata.Distribution]:
    """The named distributions and all that they require without extras."""
    waiting, seen = list(names), set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # required by other versions of Python only
            continue
        yield distribution
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[<>=\[;~! (]", requirement)[0])


@pytest.fixture(scope="module")
def run_in_base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs code in a fresh interpreter that finds the standard library, the base's packages and ours only."""
    return _runner(tmp_path_factory.mktemp("site"), "pydantic", "httpx")


def _runner(site: Path, *packages: str) -> Run:
    for distribution in _installed_with(*packages):
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        for top in tops:
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))

    paths = os.pathsep.join(map(str, (ROOT, ROOT / "integrations", site)))
    others = {name: value for name, value in os.environ.items() if not name.startswith("ASYMSPEC_")}

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-W", "error", "-c", code],  # -S: no site-packages
            cwd=ROOT,
            env={**others, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "name", ["torch", "numpy", "rich", "transformers", "smolagents", "langchain_core", "bm25s", "pytest"]
)
def test_the_base_is_bare(run_in_base: Run, name: str) -> None:
    assert f"No module named '{name}'" in run_in_base(f"import {name}").stderr


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".router",
        ".views",
        ".backends",
        ".trace",
        ".protocol",
        ".store",
        ".tokens",
        ".actions",
        ".weights",
        ".cli.main",
    ],
)
def test_it_imports_with_only_the_base(run_in_base: Run, module: str) -> None:
    result = run_in_base(f"import asymspec_agents{module}")
    assert (result.returncode, result.stderr) == (0, "")


def test_every_offered_name_can_be_looked_at(run_in_base: Run) -> None:
    result = run_in_base(
        "import asymspec_agents as a; print(dir(a)); [getattr(a, name) for name in a.__all__]"
    )
    assert (result.returncode, result.stderr) == (0, "")


ROUTE = """
import asymspec_agents.router, asymspec_agents.backends as backends
from asymspec_agents.backends import ScriptedBackend
routed = asymspec_agents.router.ContextRouter().route(
    [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "I look."},
     {"role": "user", "content": "Observation:\\n" + "It is not here. " * 5000}])
request = backends.ChatRequest(messages=routed.full, tools=routed.tools, asymspec=routed.request())
print(routed.report.num_edits, ScriptedBackend(["blue"]).generate(request).content)
"""


def test_a_request_is_routed_and_answered_with_only_the_base(run_in_base: Run) -> None:
    result = run_in_base(ROUTE)
    assert result.stderr == ""
    assert result.stdout.split()[1] == "blue"


@pytest.mark.parametrize("command", ["--help", "--version", *(f"{name} --help" for name in COMMANDS)])
def test_the_command_line_explains_itself_with_only_the_base(run_in_base: Run, command: str) -> None:
    result = run_in_base(f"from asymspec_agents.cli.main import main\nmain({command.split()!r})")
    assert (result.returncode, result.stderr) == (0, "")
    assert "asymspec" in result.stdout


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from asymspec_agents import weights; weights.resolve('smollm2-135m')", "engine"),
        ("from asymspec_agents.backends.local import LocalBackend; LocalBackend.load()", "engine"),
        ("from asymspec_agents.compress.llmlingua import LLMLingua2", "engine"),
        ("from asymspec_agents.compress.ranking import Bm25Ranker; Bm25Ranker()", "compress"),
        (
            "from asymspec_agents import actions\nactions.read_actions('{}', [{'function': {'name': 'x'}}])",
            "json",
        ),
        ("from smolagents_asymspec import AsymSpecModel", "smolagents"),
        ("from langchain_asymspec import ChatAsymSpec", "langchain"),
    ],
)
def test_a_missing_extra_says_how_to_install_it(run_in_base: Run, code: str, extra: str) -> None:
    result = run_in_base(code)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.endswith(f'run: pip install "asymspec-agents[{extra}]"')


GATEWAY = """
import asyncio, sys
import httpx
from asymspec_agents.gateway.app import create_gateway
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from asymspec_agents.server.running import serve

async def main():
    app = create_gateway(GatewayOptions(upstream=UpstreamOptions("http://127.0.0.1:1")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        print((await client.get("/health")).status_code, (await client.get("/metrics")).status_code)
    await app.state.close()

asyncio.run(main())
print([name for name in ("torch", "transformers", "numpy") if name in sys.modules])
"""


def test_the_gateway_needs_its_extra_only(tmp_path: Path) -> None:
    run = _runner(tmp_path, "pydantic", "httpx", "starlette", "uvicorn", "prometheus-client")
    done = run(GATEWAY)
    assert done.stdout.split("\n") == ["200 200", "[]", ""], done.stderr
