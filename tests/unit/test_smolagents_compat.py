"""The smolagents integration refuses versions it was not written for, and says what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError
from smolagents_asymspec._compat import check_version


@pytest.mark.parametrize("version", ["1.26.0", "1.26.1", "1.27.0.dev0", "1.100", "1.26rc1"])
def test_versions_in_range_pass(version):
    check_version(version)


@pytest.mark.parametrize("version", ["1.25.9", "0.99.0", "2.0.0", "2.0.0rc1", "10.1", "main", ""])
def test_other_versions_are_refused_by_name_value_and_limit(version):
    with pytest.raises(ConfigurationError, match=r"smolagents=.*>=1\.26,<2"):
        check_version(version)


def import_with(folder: Path, code: str) -> str:
    """Output of importing the integration in a fresh process with `folder` first on its path."""
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); sys.path[1:1] = {sys.path!r}\n{code}\n"
        "try:\n    import smolagents_asymspec\n"
        "except Exception as error:\n    print(type(error).__name__, error)\nelse:\n    print('imported')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_smolagents_names_the_extra(tmp_path):
    block = "import sys; sys.modules['smolagents'] = None"
    assert (
        'MissingDependencyError smolagents is not installed; run: pip install "asymspec-agents[smolagents]"'
        in (import_with(tmp_path, block))
    )


def test_an_old_smolagents_is_refused_before_anything_of_it_is_used(tmp_path):
    (tmp_path / "smolagents").mkdir()
    (tmp_path / "smolagents" / "__init__.py").write_text("__version__ = '1.9.2'\n")
    assert "ConfigurationError smolagents='1.9.2' is not supported" in import_with(tmp_path, "")


def test_the_base_package_does_not_import_smolagents(tmp_path):
    program = "import sys, asymspec_agents; print('smolagents' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
