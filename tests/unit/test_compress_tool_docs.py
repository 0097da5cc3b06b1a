"""The signature view of tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.compress import signature_schema, signature_text
from asymspec_agents.compress.tool_catalog import ToolCatalog
from asymspec_agents.messages import ToolSpec
from asymspec_agents.tokens import EstimateCounter

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "title": "PROSE",
    "description": "PROSE",
    "required": ["title", "when"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "description": "PROSE", "default": "PROSE", "title": "PROSE"},
        "description": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Note", "description": "PROSE"}]},
        "default": {"type": "array", "items": {"enum": ["x", 1], "title": "PROSE"}, "minItems": 1},
        "examples": {"type": ["string", "null"], "examples": ["PROSE"]},
        "when": {"type": "string", "format": "date-time", "x-help": "PROSE", "$comment": "PROSE"},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "description": "PROSE"}},
        "odd-name": True,
    },
    "$defs": {
        "Note": {
            "type": "object",
            "description": "PROSE",
            "properties": {
                "enum": {"type": "boolean", "description": "PROSE"},
                "next": {"$ref": "#/$defs/Note"},
            },
        }
    },
}


def tool(**function: Any) -> ToolSpec:
    return ToolSpec.model_validate({"type": "function", "function": {"name": "f", **function}})


def test_prose_goes_at_every_depth_and_structure_stays() -> None:
    reduced = signature_schema(tool(description="PROSE", parameters=PARAMETERS)).wire()
    assert "PROSE" not in json.dumps(reduced)
    parameters = reduced["function"]["parameters"]
    assert list(parameters["properties"]) == list(PARAMETERS["properties"])
    assert parameters["required"] == ["title", "when"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["description"]["anyOf"][1] == {"$ref": "#/$defs/Note"}
    assert parameters["properties"]["default"] == {
        "type": "array",
        "items": {"enum": ["x", 1]},
        "minItems": 1,
    }
    assert parameters["properties"]["when"] == {"type": "string", "format": "date-time"}
    assert parameters["properties"]["odd-name"] is True
    assert parameters["$defs"]["Note"]["properties"]["next"] == {"$ref": "#/$defs/Note"}


def test_the_original_and_unknown_fields_are_untouched() -> None:
    original = ToolSpec.model_validate(
        {
            "type": "function",
            "function": {"name": "f", "strict": True, "description": "d"},
            "cache_control": {"a": 1},
        }
    )
    before = original.wire()
    assert signature_schema(original).wire() == {
        "type": "function",
        "function": {"name": "f", "strict": True},
        "cache_control": {"a": 1},
    }
    assert original.wire() == before


def test_reducing_twice_changes_nothing_more() -> None:
    once = signature_schema(tool(parameters=PARAMETERS))
    assert signature_schema(once) == once


def test_enum_values_named_like_keywords_stay() -> None:
    schema = {"enum": [{"description": "kept"}, "title"], "const": {"default": 1}}
    reduced = signature_schema(tool(parameters={"properties": {"a": schema}})).wire()
    assert reduced["function"]["parameters"]["properties"]["a"] == schema


def test_tools_without_a_function() -> None:
    search = ToolSpec.model_validate({"type": "web_search", "description": "kept"})
    assert signature_schema(search) is search
    flat = ToolSpec.model_validate(
        {
            "type": "function",
            "name": "f",
            "description": "PROSE",
            "input_schema": {"title": "PROSE", "type": "object"},
        }
    )
    assert signature_schema(flat).wire() == {
        "type": "function",
        "name": "f",
        "input_schema": {"type": "object"},
    }


@pytest.mark.parametrize("parameters", [None, {}, {"properties": None}, {"properties": []}, {"type": []}])
def test_odd_schemas_are_taken(parameters: Any) -> None:
    assert signature_schema(tool(parameters=parameters)).wire()["function"]["name"] == "f"
    assert signature_text(tool(parameters=parameters)) == "f()"


def test_a_bottomless_schema_ends() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(150):
        schema = {"type": "object", "properties": {"a": schema}}
    reduced = signature_schema(tool(parameters=schema))
    assert len(signature_text(reduced)) < 2000


def test_signature_text() -> None:
    returns = {"type": "array", "items": {"type": "string"}}
    assert signature_text(tool(parameters=PARAMETERS, returns=returns)) == (
        'f(title: string, description?: null|Note, default?: ("x"|1)[], examples?: string|null, '
        "when: string, "
        'map?: {[key]: integer}, "odd-name"?: any) -> string[]'
        " where Note = {enum?: boolean, next?: Note}"
    )
    assert signature_text(tool()) == "f()"


ITEM = {"properties": {"b": {"type": "string"}}, "required": ["b"]}


@pytest.mark.parametrize(
    ("parameters", "written"),
    [
        ({"$ref": "#/$defs/I", "$defs": {"I": ITEM}}, "f(I) where I = {b: string}"),
        ({"anyOf": [ITEM, {"type": "string"}]}, "f({b: string}|string)"),
        ({"allOf": [ITEM, {"properties": {"c": {}}}]}, "f({b: string}&{c?: any})"),
        ({"properties": {"o": {**ITEM, "anyOf": [{"required": ["b"]}]}}}, "f(o?: {b: string})"),
        ({"properties": {"p": {"prefixItems": [{"type": "string"}, {}]}}}, "f(p?: [string, any])"),
        ({"type": "object"}, "f()"),
    ],
)
def test_signatures_of_odd_schemas(parameters: Any, written: str) -> None:
    assert signature_text(tool(parameters=parameters)) == written


def test_a_list_of_tools_as_content_becomes_signatures() -> None:
    tools = [
        {
            "name": f"tool{i}",
            "description": "words " * 50,
            "parameters": {"properties": {"a": {"type": "string"}}},
        }
        for i in range(8)
    ]
    counter = EstimateCounter()
    for text in (json.dumps(tools), json.dumps([{"type": "function", "function": one} for one in tools])):
        rendition = ToolCatalog().compress(text, query="", target_tokens=200, counter=counter)
        assert rendition.compressor == "tool_docs"
        assert json.loads(rendition.text)[:2] == ["tool0(a?: string)", "tool1(a?: string)"]
        assert counter.count(rendition.text) <= 200
