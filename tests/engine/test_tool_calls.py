"""Tool calls out of a model's text, in the common format: what is a call, what stays content, the order."""

from __future__ import annotations

import json

import pytest

from asymspec_agents.engine.tool_calls import ParsedText, ToolCallStream, parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools
from asymspec_agents.engine.tool_formats.json_formats import HERMES

TOOLS = Tools({"weather": {}, "search": {}})
OSLO = '{"name": "weather", "arguments": {"city": "Oslo"}}'
ROME = '{"name": "search", "arguments": {"q": "Rome"}}'


def tagged(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def read(text: str, id_prefix: str = "call_") -> ParsedText:
    return parse_tool_calls(text, (HERMES,), TOOLS, id_prefix)


def stream_of(tools: Tools = TOOLS) -> ToolCallStream:
    return ToolCallStream((HERMES,), tools, "call_")


def parsed(text: str) -> tuple[str, list[tuple[str, object]]]:
    """Content and calls (name, arguments), the same whole and streamed character by character."""
    answer = read(text)
    stream = stream_of()
    sent = "".join(stream.push(letter) for letter in text)
    rest = stream.finish()
    assert (sent + rest.content, rest.tool_calls) == (answer.content, answer.tool_calls)
    functions = [call.function for call in answer.tool_calls]
    return answer.content, [(f.name, f.arguments) for f in functions if f is not None]


WEATHER_CALL = ("weather", '{"city": "Oslo"}')
SEARCH_CALL = ("search", '{"q": "Rome"}')


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (tagged(OSLO), "", [WEATHER_CALL]),
        (f"<tool_call>{OSLO}</tool_call>", "", [WEATHER_CALL]),
        (f"{tagged(OSLO)}\n{tagged(ROME)}", "", [WEATHER_CALL, SEARCH_CALL]),
        (tagged(OSLO) + tagged(OSLO), "", [WEATHER_CALL, WEATHER_CALL]),
        (tagged(f"[{OSLO}, {ROME}]"), "", [WEATHER_CALL, SEARCH_CALL]),
        (f"Let me see.\n{tagged(OSLO)}", "Let me see.", [WEATHER_CALL]),
        (f"  Let me see. {tagged(OSLO)}", "  Let me see.", [WEATHER_CALL]),
        (f"\n\n{tagged(OSLO)}\n", "", [WEATHER_CALL]),
        (f"A {tagged(OSLO)} B\n{tagged(ROME)} C\n", "A  B\n C", [WEATHER_CALL, SEARCH_CALL]),
        (f"{tagged(OSLO)} Done.", "Done.", [WEATHER_CALL]),
        (f"x {{ {tagged(OSLO)}", "x {", [WEATHER_CALL]),
        (f"{{x}} {tagged(OSLO)}", "{x}", [WEATHER_CALL]),
        (f"```py\nf()\n```\n{tagged(OSLO)}", "```py\nf()\n```", [WEATHER_CALL]),
        # the end tag is missing
        (f"<tool_call>\n{OSLO}", "", [WEATHER_CALL]),
        (f"<tool_call>\n{OSLO}\n", "", [WEATHER_CALL]),
        (f"<tool_call>{OSLO}\n<tool_call>{ROME}", "", [WEATHER_CALL, SEARCH_CALL]),
        # tags inside arguments are text
        (
            tagged('{"name": "search", "arguments": {"q": "<tool_call>x</tool_call>"}}'),
            "",
            [("search", '{"q": "<tool_call>x</tool_call>"}')],
        ),
        # any tool may be named between tags: the framework tells the model that it does not exist
        (tagged('{"name": "other", "arguments": {}}'), "", [("other", "{}")]),
        # arguments
        (tagged('{"name": "search", "arguments": "{\\"q\\": 1}"}'), "", [("search", '{"q": 1}')]),
        (tagged('{"name": "search", "parameters": {"q": 1}}'), "", [("search", '{"q": 1}')]),
        (tagged('{"name": "search", "arguments": {"q": "天\\u00e9"}}'), "", [("search", '{"q": "天é"}')]),
        (tagged('{"name": "search", "arguments": {"q": "a\nb"}}'), "", [("search", '{"q": "a\\nb"}')]),
        (tagged('{"id": 7, "arguments": {}, "name": "search"}'), "", [("search", "{}")]),
        (tagged('{"function": {"name": "search", "arguments": {"q": 1}}}'), "", [("search", '{"q": 1}')]),
        (tagged('{"name": "search", "arguments": "{\\"q\\":\\n1}"}'), "", [("search", '{"q": 1}')]),
        # what no UTF-8 can carry stays escaped
        (
            tagged('{"name": "search", "arguments": {"q": "é\\ud83d"}}'),
            "",
            [("search", '{"q": "\\u00e9\\ud83d"}')],
        ),
        # without tags
        (OSLO, "", [WEATHER_CALL]),
        (f"\n {OSLO} \n", "", [WEATHER_CALL]),
        (f"[{OSLO}, {ROME}]", "", [WEATHER_CALL, SEARCH_CALL]),
        (f"```json\n{OSLO}\n```", "", [WEATHER_CALL]),
        (f"```\n[{OSLO}]\n```\n", "", [WEATHER_CALL]),
        (f"{OSLO}\n{ROME}", "", [WEATHER_CALL, SEARCH_CALL]),
        (f"{OSLO}; {ROME};", "", [WEATHER_CALL, SEARCH_CALL]),
        (
            '{"name": "search", "arguments": {"q": "<tool_call>"}}',
            "",
            [("search", '{"q": "<tool_call>"}')],
        ),
    ],
)
def test_calls(text: str, content: str, calls: list[tuple[str, str]]) -> None:
    assert parsed(text) == (content, calls)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "Hello.",
        "a < b and <tool",
        "<tool_call>",
        "<tool_call></tool_call>",
        "</tool_call>",
        tagged('{"name": "weather", "arguments": {"city": "Os'),
        tagged("weather(Oslo)"),
        tagged(OSLO + "}"),
        f"<tool_call>\n{OSLO} and so on",
        tagged('{"name": "weather"}'),
        tagged('{"name": "", "arguments": {}}'),
        tagged('{"name": 1, "arguments": {}}'),
        tagged('{"name": "weather", "arguments": [1]}'),
        tagged('{"name": "weather", "arguments": "Oslo"}'),
        tagged('{"name": "weather", "arguments": "[1]"}'),
        tagged('{"name": "weather", "arguments": "{} and"}'),
        tagged('{"name": "weather", "arguments": {"a": NaN}}'),
        tagged('{"name": "weather", "arguments": {"a": -Infinity}}'),
        tagged('{"name": "weather", "arguments": {"a": 1e999}}'),
        tagged('{"name": "weather", "arguments": {"a": ' + "1" * 5000 + "}}"),
        tagged('{"name": "wea\\ud83d", "arguments": {}}'),
        tagged('{"name": " ", "arguments": {}}'),
        tagged(f"[{OSLO}, 1]"),
        tagged("[]"),
        tagged("{}"),
        tagged("null"),
        tagged("[" * 50_000),
        '{"name": "other", "arguments": {}}',
        f'[{OSLO}, {{"name": "other", "arguments": {{}}}}]',
        '{"city": "Oslo"}',
        f"Here: {OSLO}",
        f"{OSLO} is what I would call.",
        f"```json\n{OSLO}\n```\nas JSON",
        "[1] A source.",
        "```python\nweather()\n```",
        "{" * 50_000,
        "``",
        "```js",
        f"```json\n{OSLO}",
        f"{OSLO} {{}}",
    ],
)
def test_what_is_no_call_stays_content_to_the_letter(text: str) -> None:
    assert parsed(text) == (text, [])


def test_a_bad_block_does_not_spoil_a_good_one() -> None:
    bad = tagged("oops")
    assert parsed(f"A {bad} {tagged(OSLO)} B") == (f"A {bad}  B", [WEATHER_CALL])
    assert parsed(f"{tagged(OSLO)}\n{bad}") == (bad, [WEATHER_CALL])


def test_ids_are_unique_and_sort_in_the_order_of_the_calls() -> None:
    answer = read(tagged(OSLO) * 120, "call_abc_")
    ids = [str(call.id) for call in answer.tool_calls]
    assert len(set(ids)) == 120
    assert ids == sorted(ids)
    assert all(i.startswith("call_abc_") for i in ids)
    assert answer == read(tagged(OSLO) * 120, "call_abc_")
    assert {call.type for call in answer.tool_calls} == {"function"}


def test_arguments_are_json_text() -> None:
    (call,) = read(tagged(OSLO)).tool_calls
    assert call.function is not None
    assert json.loads(call.function.arguments) == {"city": "Oslo"}


def test_text_is_streamed_as_soon_as_it_is_certain() -> None:
    stream = stream_of()
    pushed = [stream.push(piece) for piece in ("Let", " me ", "see <", "b>", "\n<tool", "_call>", OSLO)]
    assert pushed == ["Let", " me", " see", " <b>", "", "", ""]
    assert stream.finish().content == ""
    code = stream_of()
    assert [code.push(piece) for piece in ("```", "py", "thon\n", "f()")] == ["", "```py", "thon", "\nf()"]
    assert stream_of().push("{") == ""


def test_without_tools_everything_is_content_at_once() -> None:
    stream = stream_of(Tools({}))
    assert [stream.push(piece) for piece in (OSLO, " <tool", "_call>")] == [OSLO, " <tool", "_call>"]
    rest = stream.finish()
    assert (rest.content, rest.tool_calls) == ("", ())
