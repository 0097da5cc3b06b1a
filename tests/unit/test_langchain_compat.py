"""The LangChain integration refuses versions it was not written for, and says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError

pytest.importorskip("langchain_core")

from langchain_asymspec._compat import check_version


@pytest.mark.parametrize("version", ["1.7.5", "1.7.7", "1.8.3", "1.9.0.dev0", "1.100", "1.8rc1"])
def test_versions_in_range_pass(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["1.7.4", "1.7", "0.3.80", "2.0.0", "2.0.0rc1", "10.8", "main", ""])
def test_other_versions_are_refused_by_name_value_and_limit(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"langchain-core=.*>=1\.7\.5,<2"):
        check_version(version)


def import_with(folder: Path, code: str) -> str:
    """Output of importing the integration in a fresh process with `folder` first on its path."""
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); sys.path[1:1] = {sys.path!r}\n{code}\n"
        "try:\n    import langchain_asymspec\n"
        "except Exception as error:\n    print(type(error).__name__, error)\nelse:\n    print('imported')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_langchain_core_names_the_extra(tmp_path: Path) -> None:
    said = import_with(tmp_path, "import sys; sys.modules['langchain_core'] = None")
    assert "MissingDependencyError langchain_core is not installed" in said
    assert 'pip install "asymspec-agents[langchain]"' in said


def test_an_old_langchain_core_is_refused_before_anything_of_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "langchain_core").mkdir()
    (tmp_path / "langchain_core" / "__init__.py").write_text("__version__ = '0.3.80'\n")
    assert "ConfigurationError langchain-core='0.3.80' is not supported" in import_with(tmp_path, "")


def test_the_model_needs_neither_langchain_nor_langgraph(tmp_path: Path) -> None:
    code = "import sys; sys.modules['langchain'] = sys.modules['langgraph'] = None"
    assert import_with(tmp_path, code) == "imported\n"


def test_the_base_package_does_not_import_langchain() -> None:
    program = "import sys, asymspec_agents; print('langchain_core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
