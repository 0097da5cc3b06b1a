"""Structured output: how it is asked for, and parsers that take no answer that was cut off for a whole one.

LangChain's parsers complete broken JSON, also where the answer ended at its length limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.json import parse_json_markdown
from langchain_core.utils.pydantic import is_basemodel_subclass

__all__ = ["METHODS", "call_parser", "json_parser", "response_format", "schema_name", "structured"]

METHODS = ("function_calling", "json_schema", "json_mode")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


def response_format(schema: Any, method: str, strict: bool | None) -> dict[str, Any]:
    """The `response_format` that asks for such an answer."""
    if method == "json_mode":
        return {"type": "json_object"}
    names_itself = not isinstance(schema, Mapping) or {"title", "name", "function"} & schema.keys()
    asked = convert_to_json_schema(schema, strict=strict) if names_itself else dict(schema)
    name = _NO_NAME.sub("_", str(asked.pop("title", "answer")))[:64]
    given: dict[str, Any] = {"name": name, "schema": asked}
    if strict is not None:
        given["strict"] = strict
    return {"type": "json_schema", "json_schema": given}


def schema_name(schema: Any) -> str:
    """The name of the tool that a schema becomes."""
    return str(convert_to_openai_tool(schema)["function"]["name"])


def structured(
    model: Runnable[LanguageModelInput, AIMessage], parser: Runnable[AIMessage, Any], include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """The model and its parser as one; `include_raw` gives its answer and what went wrong as well."""
    if not include_raw:
        return model | parser
    parsed = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    ).with_fallbacks([RunnablePassthrough.assign(parsed=lambda _: None)], exception_key="parsing_error")
    return RunnableMap(raw=model) | parsed


def json_parser(schema: Any) -> Runnable[AIMessage, Any]:
    """Reads the JSON of an answer: an object of the schema where that is a pydantic class, else a dict."""
    return _PydanticParser(pydantic_object=schema) if _is_pydantic(schema) else _JsonParser()


def call_parser(schema: Any) -> Runnable[AIMessage, Any]:
    """Reads the arguments of the one call that was asked for."""
    if _is_pydantic(schema):
        return _PydanticCallParser(tools=[schema], first_tool_only=True)
    return _CallParser(key_name=schema_name(schema), first_tool_only=True)


def _is_pydantic(schema: Any) -> bool:
    return isinstance(schema, type) and is_basemodel_subclass(schema)


def _check_whole(result: Sequence[Generation], partial: bool, wants_call: bool = False) -> None:
    generation = result[0]
    if not isinstance(generation, ChatGeneration):
        return
    message = generation.message
    if message.response_metadata.get("finish_reason") == "length":
        raise OutputParserException(
            "the answer reached its length limit and is not whole; allow more with max_tokens",
            llm_output=str(message.text),
        )
    if wants_call and not partial and not getattr(message, "tool_calls", None):
        raise OutputParserException(
            "the answer makes no valid call of the tool it was to call", llm_output=str(message.text)
        )


def _check_closed(result: Sequence[Generation], partial: bool) -> None:
    """Refuses JSON that was completed to be read, whatever reason the answer gives for its end."""
    generation = result[0]
    is_last = isinstance(generation, ChatGeneration) and bool(
        generation.message.response_metadata.get("finish_reason")
    )
    if partial and not is_last:
        return
    try:
        parse_json_markdown(generation.text.strip(), parser=_strictly)
    except ValueError as error:
        raise OutputParserException(
            f"the answer is not whole JSON ({error})", llm_output=generation.text
        ) from error


def _strictly(text: str) -> Any:
    return json.loads(text, strict=False)  # models write line breaks into strings


class _JsonParser(JsonOutputParser):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        _check_whole(result, partial)
        parsed = super().parse_result(result, partial=partial)
        _check_closed(result, partial)
        return parsed


class _PydanticParser(PydanticOutputParser[Any]):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        _check_whole(result, partial)
        parsed = super().parse_result(result, partial=partial)
        _check_closed(result, partial)
        return parsed


class _CallParser(JsonOutputKeyToolsParser):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        _check_whole(result, partial, wants_call=True)
        return super().parse_result(result, partial=partial)


class _PydanticCallParser(PydanticToolsParser):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        _check_whole(result, partial, wants_call=True)
        return super().parse_result(result, partial=partial)
