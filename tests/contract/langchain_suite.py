"""What ChatAsymSpec declares to LangChain's standard integration tests, whatever is behind it."""

from __future__ import annotations

import functools
import operator
import struct
import types
from typing import Any, Literal

import httpx
import pytest
from langchain_core.messages import AIMessage

from langchain_asymspec import ChatAsymSpec
from tests.attachments.files import image, pdf

__all__ = ["LangChainSuite"]

SILENCE = struct.pack(
    "<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 1, 1, 8_000, 16_000, 2, 16, b"data", 0
)


class LangChainSuite:
    """The declarations. Where a test downloads a picture or a document, this class hands it one."""

    url = ""

    @pytest.fixture(autouse=True)
    def no_internet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answers the downloads of the standard tests from here."""

        def get(url: str, **kwargs: Any) -> Any:
            contents = {"png": image(), "pdf": pdf(["A page."]), "wav": SILENCE}
            return types.SimpleNamespace(content=contents[url.rpartition(".")[2]])

        monkeypatch.setattr(httpx, "get", get)
        monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "none is needed")

    @property
    def chat_model_class(self) -> type[ChatAsymSpec]:
        return ChatAsymSpec

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_pdf_inputs(self) -> bool:
        return True

    @property
    def supports_pdf_tool_message(self) -> bool:
        return True

    @property
    def supports_audio_inputs(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[Literal["invoke", "stream"], list[Any]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        """The second answer to one prompt."""
        model = self.chat_model_class(**self.chat_model_params)
        model.invoke("Count to three.")
        if not stream:
            return model.invoke("Count to three.")
        chunks = list(model.stream("Count to three."))
        return functools.reduce(operator.add, chunks)
