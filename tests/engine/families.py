"""What chat templates of the common families say about tools, and how their models then write calls."""

from __future__ import annotations

from asymspec_agents.engine.tool_formats.base import ToolFormat, Tools
from asymspec_agents.engine.tool_formats.table import formats_of

__all__ = ["OFFERED", "TEMPLATES", "formats"]

TEMPLATES = {
    "hermes": 'Return JSON within <tool_call></tool_call> tags:\n<tool_call>\n{"name": …}\n</tool_call>',
    "qwen3-coder": "so:\n<tool_call>\n<function=example>\n<parameter=one>\nvalue\n</parameter>\n</function>",
    "glm": "{{ '<tool_call>' + tc.name }}{% for k, v in args %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}",
    "mistral": "{{ '[TOOL_CALLS]' + tool_call.name + '[ARGS]' + arguments }}",
    "llama": '<|start_header_id|>{{ role }}<|end_header_id|> {"name": …, "parameters": …}',
    "phi": "<|system|>{{ content }}<|tool|>{{ tools }}<|/tool|><|end|>",
    "granite": "{{ '<|tool_call|>' + message.tool_calls | tojson }}",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ name }}<｜tool▁sep｜>{{ arguments }}",
    "gemma": "<start_of_turn>{{ role }}\n{{ content }}<end_of_turn>",
    "llama4": "<|header_start|>assistant<|header_end|> [func_name1(params_name1=params_value1)]",
    "none": "{{ message.content }}",
}

OFFERED = Tools(
    {
        "weather": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "ratio": {"type": "number"},
                "is_metric": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"$ref": "#/$defs/place"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "note": {"type": ["string", "null"]},
                "unit": {"enum": ["C", "F"]},
                "any": {},
            },
            "$defs": {"place": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/place"}}}},
        },
        "now": {},
    }
)


def formats(family: str) -> tuple[ToolFormat, ...]:
    """The formats of a family's template."""
    return formats_of(TEMPLATES[family], ())
