"""What each package offers: every name of `__all__` exists, and nothing public is left off it."""

from __future__ import annotations

import importlib
import types

import pytest

import asymspec_agents
from tests.architecture import modules

PUBLIC = [name for name in modules() if not any(part.startswith("_") for part in name.split("."))]


@pytest.mark.parametrize("name", PUBLIC)
def test_offered_names_exist(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("vllm", "fastapi"):  # the latter comes with the former
            raise
        pytest.skip("vllm is not installed, and this module is nothing without it")
    for offered in getattr(module, "__all__", ()):
        assert hasattr(module, offered), f"{name}.{offered}"


@pytest.mark.parametrize("name", [name for name in PUBLIC if modules()[name].is_package])
def test_packages_offer_all_they_import(name: str) -> None:
    package = importlib.import_module(name)
    public = {
        attribute
        for attribute, value in vars(package).items()
        if not attribute.startswith("_")
        and not isinstance(value, types.ModuleType)
        and attribute != "annotations"
    }
    assert public <= set(getattr(package, "__all__", ()))


def test_the_package_itself_offers_few_names() -> None:
    assert "__version__" in asymspec_agents.__all__
    assert len(asymspec_agents.__all__) <= 25
