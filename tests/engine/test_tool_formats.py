"""Every family's own way to write calls: found by its template, read, and left alone where it is no call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.engine.tool_calls import ToolCallStream, parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools
from asymspec_agents.engine.tool_formats.table import formats_of
from asymspec_agents.engine.tool_formats.values import allowed_types, convert

from .families import OFFERED, TEMPLATES, formats


def read(family: str, text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Content and calls (name, arguments), the same whole and letter by letter."""
    answer = parse_tool_calls(text, formats(family), OFFERED, "c")
    stream = ToolCallStream(formats(family), OFFERED, "c")
    sent = "".join(stream.push(letter) for letter in text)
    rest = stream.finish()
    assert (sent + rest.content, rest.tool_calls) == (answer.content, answer.tool_calls)
    functions = [call.function for call in answer.tool_calls if call.function]
    return answer.content, [(f.name, json.loads(f.arguments)) for f in functions]


DS_BEGIN, DS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
DS_CALL, DS_CALL_END, DS_SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
DS_V3 = f'{DS_CALL}function{DS_SEP}weather\n```json\n{{"city": "Oslo"}}\n```{DS_CALL_END}'
DS_V31 = f'{DS_CALL}weather{DS_SEP}{{"city": "Oslo"}}{DS_CALL_END}'
OSLO = ("weather", {"city": "Oslo"})
NOW: tuple[str, dict[str, Any]] = ("now", {})
JSON_OSLO = '{"name": "weather", "arguments": {"city": "Oslo"}}'
JSON_NOW = '{"name": "now", "arguments": {}}'


@pytest.mark.parametrize(
    ("family", "text", "content", "calls"),
    [
        # Qwen3-Coder
        (
            "qwen3-coder",
            "I look.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n"
            "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
            "I look.",
            [("weather", {"city": "Oslo", "days": 3})],
        ),
        (
            "qwen3-coder",
            "<function=weather><parameter=city>\n\n a\nb \n</parameter></function>\n</tool_call>",
            "",
            [("weather", {"city": "\n a\nb "})],
        ),
        ("qwen3-coder", "<tool_call><function=now></function>", "", [NOW]),
        ("qwen3-coder", "<function=now>\n</function> then", "then", [NOW]),
        (
            "qwen3-coder",
            "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=other>\n"
            "<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
            "",
            [NOW, ("other", {"x": 1})],
        ),
        (
            "qwen3-coder",
            "<function=weather><parameter=city>a</parameter> b</function></parameter></function>",
            "",
            [("weather", {"city": "a</parameter> b</function>"})],
        ),
        ("qwen3-coder", f"<tool_call>{JSON_OSLO}</tool_call>", "", [OSLO]),
        # GLM
        (
            "glm",
            "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
            "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
            "",
            [("weather", {"city": "Oslo", "days": 3})],
        ),
        ("glm", "<tool_call>now\n</tool_call><tool_call>now</tool_call>", "", [NOW, NOW]),
        (
            "glm",
            "So: <tool_call>other<arg_key>a</arg_key><arg_value>b</arg_value></tool_call>",
            "So:",
            [("other", {"a": "b"})],
        ),
        # Mistral
        ("mistral", f"[TOOL_CALLS] [{JSON_OSLO}, {JSON_NOW}]", "", [OSLO, NOW]),
        ("mistral", f"[TOOL_CALLS]{JSON_OSLO}", "", [OSLO]),
        (
            "mistral",
            '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]now[ARGS]{}',
            "",
            [OSLO, NOW],
        ),
        ("mistral", '[TOOL_CALLS]weather[CALL_ID]abc123DEF[ARGS]{"city": "Oslo"}', "", [OSLO]),
        ("mistral", 'Right. [TOOL_CALLS]weather{"city": "Oslo"}', "Right.", [OSLO]),
        ("mistral", f"[{JSON_OSLO}]", "", [OSLO]),
        # Llama
        ("llama", '{"name": "weather", "parameters": {"city": "Oslo"}}', "", [OSLO]),
        ("llama", f'<|python_tag|>{JSON_OSLO}; {{"name": "now", "parameters": {{}}}}', "", [OSLO, NOW]),
        ("llama", '<|python_tag|>weather.call(city="Oslo")', "", [OSLO]),
        ("llama", '<function=weather>{"city": "Oslo"}</function>', "", [OSLO]),
        ("llama", '[weather(city="Oslo"), now()]', "", [OSLO, NOW]),
        # Llama 4
        ("llama4", "[weather(city='Oslo')]", "", [OSLO]),
        ("llama4", "<|python_start|>[weather(city='Oslo'), now()]<|python_end|>", "", [OSLO, NOW]),
        # Phi, Granite
        ("phi", f"<|tool_call|>[{JSON_OSLO}, {JSON_NOW}]<|/tool_call|>", "", [OSLO, NOW]),
        ("granite", f"<|tool_call|>[{JSON_OSLO}]", "", [OSLO]),
        ("granite", f"First <|tool_call|> {JSON_OSLO}<|tool_call|>{JSON_NOW}", "First", [OSLO, NOW]),
        # DeepSeek
        ("deepseek", f"{DS_BEGIN}{DS_V3}\n{DS_V3}{DS_END}", "", [OSLO, OSLO]),
        ("deepseek", f"Hm.\n{DS_BEGIN}{DS_V31}{DS_V31}{DS_END}", "Hm.", [OSLO, OSLO]),
        ("deepseek", f"{DS_BEGIN}{DS_V31}", "", [OSLO]),
        ("deepseek", DS_V31, "", [OSLO]),
        # Gemma
        ("gemma", "```tool_code\nweather(city='Oslo')\nnow()\n```", "", [OSLO, NOW]),
        (
            "gemma",
            'Sure.\n```tool_code\nprint(default_api.weather(city="Oslo"))\n```\nWait.',
            "Sure.\n\nWait.",
            [OSLO],
        ),
        ("gemma", "```tool_code\nweather(city='Oslo')", "", [OSLO]),
        ("gemma", "```tool_code\nweather(city='a```b')\n```", "", [("weather", {"city": "a```b"})]),
        ("gemma", "```json\n" + JSON_OSLO + "\n```", "", [OSLO]),
        # a template without tools
        ("none", f"<tool_call>{JSON_OSLO}</tool_call>", "", [OSLO]),
    ],
)
def test_calls(family: str, text: str, content: str, calls: list[Any]) -> None:
    assert read(family, text) == (content, calls)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("qwen3-coder", "<tool_call>\n<function=weather>\n<parameter=city>\nOs"),
        ("qwen3-coder", "<function=weather><parameter=city>Oslo</function>"),
        ("qwen3-coder", "<function=weather><parameter=city>Oslo</parameter>"),
        ("qwen3-coder", "<function=>x</function>"),
        ("qwen3-coder", "<function=now> and so on </function>"),
        ("qwen3-coder", "<tool_call>now</tool_call>"),
        ("glm", "<tool_call>oops</tool_call>"),
        ("glm", "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo"),
        ("glm", "<tool_call>weather<arg_key>city</arg_key></tool_call>"),
        ("glm", "<tool_call>now"),
        ("mistral", "[TOOL_CALLS]"),
        ("mistral", "[TOOL_CALLS]weather[ARGS]Oslo"),
        ("mistral", '[TOOL_CALLS]weather[ARGS]{"city": "Os'),
        ("mistral", "[TOOL_CALLS] []"),
        ("mistral", "<tool_call>" + JSON_OSLO + "</tool_call>"),
        ("llama", "<|python_tag|>print(1 + 1)"),
        ("llama", "<|python_tag|>import os\nos.remove('x')"),
        ("llama", '<function=weather>{"city": "Os'),
        ("llama", "[weather('Oslo')]"),
        ("llama", "[weather(city=Oslo)]"),
        ("llama", "[weather(**{'city': 'Oslo'})]"),
        ("llama", "[other(city='Oslo')]"),
        ("llama", "[weather(city='Oslo')] it is"),
        ("llama4", "[weather(city=__import__('os').getcwd())]"),
        ("llama4", "[weather(city={1, 2})]"),
        ("llama4", "[weather(days=1e999)]"),
        ("llama4", "[]"),
        ("llama4", "[" * 5000),
        ("llama4", "<|python_start|>[weather(city='Oslo')"),
        ("phi", "<|tool_call|>weather<|/tool_call|>"),
        ("phi", f"<|tool_call|>[{JSON_OSLO}, 1]<|/tool_call|>"),
        ("granite", f"<|tool_call|>[{JSON_OSLO}] maybe"),
        ("deepseek", f"{DS_BEGIN}{DS_END}"),
        ("deepseek", f"{DS_BEGIN}{DS_CALL}function{DS_SEP}weather\n```json\n{{}}{DS_CALL_END}{DS_END}"),
        ("deepseek", f"{DS_BEGIN}{DS_CALL}weather{DS_SEP}Oslo{DS_CALL_END}{DS_END}"),
        ("gemma", "```tool_code\nx = weather(city='Oslo')\n```"),
        ("gemma", "```tool_code\nimport os\n```"),
        ("gemma", "```python\nweather(city='Oslo')\n```"),
        ("gemma", "Call weather(city='Oslo')."),
    ],
)
def test_what_is_no_call_stays_content_to_the_letter(family: str, text: str) -> None:
    assert read(family, text) == (text, [])


def test_a_bad_call_does_not_spoil_a_good_one() -> None:
    bad = f"{DS_CALL}weather{DS_SEP}Oslo{DS_CALL_END}"
    content, calls = read("deepseek", f"{DS_BEGIN}{bad}{DS_V31}{DS_END}")
    assert calls == [OSLO]
    assert bad in content


def test_odd_escapes_in_python_are_kept_without_a_warning() -> None:
    assert read("llama4", r"[weather(city='\d+')]") == ("", [("weather", {"city": r"\d+"})])
    assert read("llama4", "[weather(is_metric=true, note=null)]")[1] == [
        ("weather", {"is_metric": True, "note": None})
    ]


@pytest.mark.parametrize("family", sorted(TEMPLATES))
def test_the_family_finds_its_format_by_its_tokens_too(family: str) -> None:
    for fmt in formats(family):
        if fmt.openings[0].startswith(("<", "[")) and family != "none":
            assert fmt in formats_of("", {fmt.signs[0]})
    assert formats_of("", ()) == formats("none")


def test_openings_of_one_family_are_nothing_to_another() -> None:
    assert {fmt.name for fmt in formats("mistral")} == {"mistral"}
    assert {fmt.name for fmt in formats("hermes")} == {"hermes"}


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("city", "5", "5"),
        ("city", "null", "null"),
        ("city", ' "x" ', ' "x" '),
        ("days", "5", 5),
        ("days", " 5\n", 5),
        ("days", "5.0", 5),
        ("days", "5.5", "5.5"),
        ("days", "five", "five"),
        ("days", "true", "true"),
        ("days", '"5"', '"5"'),
        ("days", "1" * 5000, "1" * 5000),
        ("ratio", "5", 5),
        ("ratio", "0.5", 0.5),
        ("ratio", "NaN", "NaN"),
        ("ratio", "1e999", "1e999"),
        ("is_metric", "true", True),
        ("is_metric", "False", False),
        ("is_metric", "1", "1"),
        ("tags", '["a"]', ["a"]),
        ("tags", "['a', None]", ["a", None]),
        ("tags", "('a',)", "('a',)"),
        ("where", '{"a": 1}', {"a": 1}),
        ("limit", "null", None),
        ("limit", "None", None),
        ("limit", "7", 7),
        ("note", "null", None),
        ("note", "7", "7"),
        ("unit", "5", "5"),
        ("any", "5", 5),
        ("any", "x", "x"),
        ("any", '"x"', '"x"'),
        ("undeclared", "[1]", [1]),
        ("undeclared", "[" * 5000, "[" * 5000),
    ],
)
def test_values_follow_the_schema(parameter: str, text: str, value: Any) -> None:
    converted = convert(text, allowed_types(OFFERED, "weather", parameter))
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a"},
        {"$ref": "#/nowhere"},
        {"$ref": 5},
        {"type": 5, "enum": 5, "anyOf": 5, "const": {}},
        {"anyOf": [5, {"anyOf": [{"$ref": "#/$defs/a"}] * 8}]},
        {"type": [{}]},
        5,
    ],
)
def test_odd_schemas_allow_anything_quickly(schema: Any) -> None:
    tools = Tools(
        {"f": {"properties": {"p": schema}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 9}}}}
    )
    deep: Any = {}
    for _ in range(3000):
        deep = {"anyOf": [deep]}
    assert allowed_types(tools, "f", "p")
    assert allowed_types(Tools({"f": {"properties": {"p": deep}}}), "f", "p")
    assert allowed_types(Tools({"f": {"properties": 5}}), "f", "p")


@pytest.mark.parametrize("family", sorted(TEMPLATES))
def test_long_nonsense_is_read_in_reasonable_time(family: str) -> None:
    """No format goes over the same stretch again and again, which would take minutes here."""
    for fmt in formats(family):
        for opening in fmt.openings:
            for filler in (opening, " ", "[", "<arg_key> ", "a"):
                text = opening + filler * 5_000
                assert parse_tool_calls(text, formats(family), OFFERED, "c").content == text
