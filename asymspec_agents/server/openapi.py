"""The OpenAPI description of a server, from the models that its bodies are checked with."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .._version import __version__
from ..protocol import AsymSpecReport
from ..wire.handshake import ServerInfo
from ..wire.requests import ChatBody, CompletionBody

__all__ = ["openapi_schema"]

REFUSALS = {
    "400": "The request is malformed or cannot be served as asked.",
    "401": "The API key is missing or wrong.",
    "404": "There is no such model.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "Too many requests are waiting.",
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}


def openapi_schema() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    kinds: list[type[BaseModel]] = [ChatBody, CompletionBody, ServerInfo, AsymSpecReport]
    _, definitions = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    answer = {
        "type": "object",
        "required": ["id", "object", "choices", "usage"],
        "properties": {"asymspec": _ref("AsymSpecReport")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "asymspec-agents", "version": __version__},
        "components": {
            "schemas": {**definitions["$defs"], "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
        "paths": {
            "/v1/chat/completions": {"post": _post("Answers a conversation.", "ChatBody", answer)},
            "/v1/completions": {"post": _post("Continues a text.", "CompletionBody", answer)},
            "/tokenize": {"post": _post("Counts tokens.", "ChatBody", {"type": "object"})},
            "/v1/models": {"get": _get("Lists the models.", {"type": "object"})},
            "/v1/asymspec": {"get": _get("Says models, modes and limits.", _ref("ServerInfo"))},
            "/version": {"get": _get("Says the version.", {"type": "object"})},
            "/health": {"get": _get("Says whether requests are decoded.", {"type": "object"})},
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _get(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    refused = {"description": REFUSALS["401"], "content": _json(_ref("Error"))}
    return {
        "summary": summary,
        "responses": {"200": {"description": "Done.", "content": _json(schema)}, "401": refused},
    }


def _post(summary: str, body: str, schema: dict[str, Any]) -> dict[str, Any]:
    done = {"description": "Done.", "content": {**_json(schema), "text/event-stream": {}}}
    refusals = {
        status: {"description": text, "content": _json(_ref("Error"))} for status, text in REFUSALS.items()
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _json(_ref(body))},
        "responses": {"200": done, **refusals},
    }
