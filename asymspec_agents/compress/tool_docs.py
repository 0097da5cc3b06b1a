"""The signature view of tools: what a call may look like, without the prose that explains it.

Source of the keyword lists: JSON Schema 2020-12 (core, applicator, validation), with the older drafts' and
OpenAPI's structural keywords. All other keywords are annotations by that standard and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..messages import FunctionSpec, ToolSpec

__all__ = ["signature_schema", "signature_text"]

_VALIDATION = (
    {
        "type",
        "enum",
        "const",
        "format",
        "pattern",
        "required",
        "dependentRequired",
        "nullable",
        "discriminator",
    }
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
    | {"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"}
    | {"contentEncoding", "contentMediaType", "$ref", "$dynamicRef", "$recursiveRef", "$schema"}
    | {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
)
_SUBSCHEMA = (
    {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"not", "if", "then", "else", "anyOf", "oneOf", "allOf"}
)
# Their keys are names chosen by the tool, never keywords: a parameter may be called "description".
_NAMED_SUBSCHEMAS = {
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
}
_SCHEMA_FIELDS = {"parameters", "input_schema", "inputSchema", "output_schema", "outputSchema"} | {
    "returns",
    "response",
}
_PROSE_FIELDS = {"description", "title", "summary", "documentation", "default", "example", "examples"} | {
    "input_examples"
}
_MAX_DEPTH = 64  # beyond it a schema says nothing more: {}


def signature_schema(tool: ToolSpec) -> ToolSpec:
    """The tool with descriptions, titles, defaults and examples left out at every depth; all else is kept.

    Names, types, required, enums, constraints, `$ref` and unknown fields of the tool stay, so the result is a
    valid tool that accepts what the original accepts.
    """
    if tool.function is not None:
        reduced = FunctionSpec.model_validate(_reduce_function(tool.function.wire()))
        return tool.model_copy(update={"function": reduced})
    wire = tool.wire()  # a flat function tool, or a built-in tool that has no schema
    return ToolSpec.model_validate(_reduce_function(wire)) if _SCHEMA_FIELDS & wire.keys() else tool


def _reduce_function(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _reduce(value, 0) if key in _SCHEMA_FIELDS else value
        for key, value in function.items()
        if key not in _PROSE_FIELDS
    }


def _reduce(schema: Any, depth: int) -> Any:
    if isinstance(schema, list | tuple):
        return [_reduce(item, depth) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if depth >= _MAX_DEPTH:
        return {}
    reduced: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _VALIDATION:
            reduced[key] = value
        elif key in _SUBSCHEMA:
            reduced[key] = _reduce(value, depth + 1)
        elif key in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
            reduced[key] = {name: _reduce(part, depth + 1) for name, part in value.items()}
    return reduced


def signature_text(tool: ToolSpec) -> str:
    """One line such as `search(query: string, sort?: "new"|"top", tags?: string[]) -> object`.

    `?` marks what is not required. The arrow stands only where the tool declares what it returns, and
    ` where Name = …` where its schema refers to definitions.
    """
    function = tool.wire() if tool.function is None else tool.function.wire()
    schemas = {key: value for key, value in function.items() if isinstance(value, Mapping)}
    takes = _Signature(_first(schemas, "parameters", "input_schema", "inputSchema"))
    gives = _Signature(_first(schemas, "returns", "output_schema", "outputSchema", "response"))
    name = function.get("name", function.get("type", "tool"))
    text = f"{name}({takes.fields(takes.root, 0) or takes.whole()})"
    if gives.root:
        text += f" -> {gives.type(gives.root, 0)}"
    definitions = {**takes.definitions(), **gives.definitions()}
    if definitions:
        text += " where " + ", ".join(f"{key} = {value}" for key, value in definitions.items())
    return text


def _first(schemas: Mapping[str, Mapping[str, Any]], *keys: str) -> Mapping[str, Any]:
    return next((schemas[key] for key in keys if key in schemas), {})


class _Signature:
    """Writes the types of one schema, noting the definitions it refers to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self._referred: dict[str, Any] = {}  # definitions by name, in the order of their first mention

    def definitions(self) -> dict[str, str]:
        """The types of all definitions mentioned so far, and of those that they mention."""
        written: dict[str, str] = {}
        while len(written) < len(self._referred):
            name = next(name for name in self._referred if name not in written)
            written[name] = self.type(self._referred[name], 0)
        return written

    def whole(self) -> str:
        """The root as one type, where it says more than that it is an object: a reference, alternatives."""
        written = self.type(self.root, 0)
        return "" if written in ("object", "dict", "any") else written

    def fields(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return ""
        required = schema.get("required")
        required = required if isinstance(required, list | tuple) else ()
        return ", ".join(
            f"{name if str(name).isidentifier() else _literal(name)}{'' if name in required else '?'}: "
            f"{self.type(part, depth + 1)}"
            for name, part in properties.items()
        )

    def type(self, schema: Any, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return "any"
        if schema.get("nullable") is True:
            return self.type({**schema, "nullable": False}, depth) + "|null"
        if isinstance(reference := schema.get("$ref"), str):
            return self._refer(reference)
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(choices := schema.get("enum"), list | tuple) and choices:
            return "|".join(map(_literal, choices))
        if "allOf" not in schema and (fields := self.fields(schema, depth)):
            return f"{{{fields}}}"  # alternatives beside it mostly say which of its fields go together
        for keyword, operator in (("anyOf", "|"), ("oneOf", "|"), ("allOf", "&")):
            if isinstance(branches := schema.get(keyword), list | tuple) and branches:
                # A dict keeps the first of equal branches, in order.
                written = [self.type(part, depth + 1) for part in branches]
                if keyword == "allOf" and (fields := self.fields(schema, depth)):
                    written.append(f"{{{fields}}}")
                return operator.join(dict.fromkeys(written))
        kind = schema.get("type")
        if isinstance(kind, list | tuple):
            return "|".join(self.type({**schema, "type": one}, depth + 1) for one in kind) or "any"
        if isinstance(places := schema.get("prefixItems"), list | tuple) and places:
            return f"[{', '.join(self.type(part, depth + 1) for part in places)}]"
        if kind == "array" or (kind is None and "items" in schema):
            item = self.type(schema.get("items", {}), depth + 1)
            return f"({item})[]" if "|" in item or "&" in item else f"{item}[]"
        if isinstance(values := schema.get("additionalProperties"), Mapping) and kind in ("object", "dict"):
            return f"{{[key]: {self.type(values, depth + 1)}}}"
        return kind if isinstance(kind, str) else "any"

    def _refer(self, reference: str) -> str:
        name = reference.rsplit("/", 1)[-1] or reference
        node: Any = self.root if reference.startswith("#/") else None
        for step in reference[2:].split("/"):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
        if node is not None:
            self._referred.setdefault(name, node)
        return name


def _literal(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
