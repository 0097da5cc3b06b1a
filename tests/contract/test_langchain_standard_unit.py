"""LangChain's own unit tests for chat models, run on ChatAsymSpec."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.unit_tests import ChatModelUnitTests

from langchain_asymspec import ChatAsymSpec


class TestChatAsymSpec(ChatModelUnitTests):
    """A model that names a server; nothing is sent.

    One test skips itself: LangChain's `load` revives classes of its own list only, so a third party's model
    says that it is not serializable that way (it can be pickled).
    """

    @property
    def chat_model_class(self) -> type[ChatAsymSpec]:
        return ChatAsymSpec

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"base_url": "http://127.0.0.1:9", "model": "org/verifier"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"ASYMSPEC_API_KEY": "a-key"}, self.chat_model_params, {"api_key": "a-key"}
