"""LangChain's own integration tests for chat models, run on ChatAsymSpec over a scripted backend.

Once in this process, and once behind `asymspec serve`'s application on a real socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import ChatModelIntegrationTests

from tests.contract.langchain_answers import obedient_backend
from tests.contract.langchain_suite import LangChainSuite
from tests.server.serving import serving


class TestInProcess(LangChainSuite, ChatModelIntegrationTests):
    """ChatAsymSpec(backend=ScriptedBackend(…))."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"backend": obedient_backend()}

    @property
    def model_override_value(self) -> str:
        return "org/verifier"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of two models."""
    with serving({name: obedient_backend(name) for name in ("org/verifier", "org/drafter")}) as url:
        yield url


class TestOverHTTP(LangChainSuite, ChatModelIntegrationTests):
    """ChatAsymSpec(base_url=…)."""

    @pytest.fixture(autouse=True)
    def has_server(self, server: str) -> None:
        self.url = server

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"base_url": self.url}

    @property
    def model_override_value(self) -> str:
        return "org/drafter"
