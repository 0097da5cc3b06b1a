"""Copies of tools that show signatures: what is copied, and what is handed on itself."""

from typing import ClassVar

from smolagents import Tool
from smolagents.models import get_tool_json_schema

from asymspec_agents.compress.tool_docs import signature_schema
from asymspec_agents.messages import parse_tools
from smolagents_asymspec.inner_tools import signature_copies


class Search(Tool):
    name = "search"
    description = "Searches, at length."
    inputs: ClassVar = {
        "query": {"type": "string", "description": "What to look for"},
        "sort": {"type": "string", "description": "Order", "enum": ["new", "top"], "nullable": True},
        "tags": {"type": "array", "description": "Tags", "items": {"type": "string", "description": "Tag"}},
        "limit": {"type": ["integer", "null"], "description": "Most results"},
    }
    output_type = "string"

    def forward(self, query: str, tags: list, limit: int, sort: str | None = None) -> str:
        return query


class NotCopied(Search):
    def __copy__(self):
        raise RuntimeError("one of a kind")


def shortened(tool):
    return tuple(signature_schema(spec) for spec in parse_tools([get_tool_json_schema(tool)]))


def test_a_copy_has_the_schema_of_the_compressed_view_and_is_the_same_tool_otherwise():
    tool = Search()
    before = get_tool_json_schema(tool)
    (copied,) = signature_copies([tool], shortened(tool))
    expected = shortened(tool)[0].wire()
    assert get_tool_json_schema(copied) == {
        **expected,
        "function": {**expected["function"], "description": ""},
    }
    assert copied(query="x", tags=[], limit=1) == "x"
    assert get_tool_json_schema(tool) == before


def test_what_cannot_be_copied_or_does_not_match_is_handed_on_itself():
    one_of_a_kind, tool, schema = NotCopied(), Search(), get_tool_json_schema(Search())
    (spec,) = shortened(tool)
    other = parse_tools(
        [{"type": "function", "function": {"name": "search", "parameters": {"properties": {}}}}]
    )
    assert signature_copies([one_of_a_kind], [spec]) == [one_of_a_kind]
    assert signature_copies([schema], [spec]) == [schema]
    assert signature_copies([tool], other) == [tool]
    assert signature_copies([tool], parse_tools([{"type": "web_search"}])) == [tool]
    assert signature_copies([tool], []) == [tool]
