"""What a gateway says of missing packages, and what it checks before anybody is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from asymspec_agents.cli.main import main
from tests.gateway.scripted import Upstream
from tests.gateway.serving import ask, upstream

ROOT = Path(__file__).parent.parent.parent
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
BY_IMPORT = "import asymspec_agents.gateway.app"
BY_COMMAND = """
from asymspec_agents.cli.main import main
sys.exit(main(["gateway", "--port", "0", "--upstream", "http://127.0.0.1:1"]))
"""


@pytest.mark.parametrize(
    ("package", "how"),
    [
        ("starlette", BY_IMPORT),
        ("prometheus_client", BY_IMPORT),
        ("starlette", BY_COMMAND),
        ("uvicorn", BY_COMMAND),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package: str, how: str) -> None:
    code = WITHOUT.format(package=package) + how
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    told = done.stderr.strip().splitlines()[-1]
    assert f'{package} is not installed; run: pip install "asymspec-agents[gateway]"' in told


@pytest.mark.parametrize("option", ["--cache", "--trace"])
def test_its_files_are_checked_before_an_upstream_is_asked(option: str, tmp_path: Path) -> None:
    with upstream() as (app, address):
        place = str(tmp_path / "nowhere" / "file")
        (tmp_path / "nowhere").write_text("no folder")
        assert main(["gateway", "--port", "0", "--upstream", address, option, place]) != 0
    assert app.num_handshakes == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--upstream", "ftp://a"], "--upstream: "),
        (["--route", "small=ftp://a"], "--route small: "),
        (["--upstream", "http://127.0.0.1:1", "--max-in-flight", "0"], "--max-in-flight=0"),
    ],
)
def test_errors_name_the_option(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--port", "0", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_an_unknown_path_is_told_where_the_api_is(pair: tuple[Upstream, str]) -> None:
    told = ask(pair[1], path="/nope").json()["error"]["message"]
    assert all(f"/v1/{name}" in told for name in ("chat/completions", "completions", "responses"))
