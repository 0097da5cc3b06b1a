"""API-Bank's turns as chat messages, and its APIs as tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .api_bank_release import Api

__all__ = ["NEXT_CALL", "as_tool", "conversation", "found_apis"]

SYSTEM = (
    "You are an assistant that serves its user by calling APIs. Decide from the conversation which API must "
    "be called next and call it, once, with arguments from the conversation in the formats that the API asks "
    "for. Do not explain and do not ask. The current year is 2023."
)
NEXT_CALL = "Make the API call that is needed now."

_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "list(str)": {"type": "array", "items": {"type": "string"}},
    "dict": {"type": "object"},
}


def as_tool(api: Api) -> dict[str, Any]:
    """The API on OpenAI's wire; a type that is none of the usual ones is left open.

    API-Bank does not say which parameters may be missing (some calls leave some out), so none is `required`.
    """
    properties = {
        name: {**_TYPES.get(said.get("type", ""), {}), "description": said.get("description", "")}
        for name, said in api.inputs.items()
    }
    description = api.description
    if api.outputs:
        description += f" Returns: {json.dumps(api.outputs, ensure_ascii=False)}"
    return {
        "type": "function",
        "function": {
            "name": api.name,
            "description": description,
            "parameters": {"type": "object", "properties": properties},
        },
    }


def conversation(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages of the turns, behind a system message; at the end it is never the assistant's own text.

    What the AI says right before a call is one message with it, and texts of one side in a row are one
    message, as many chat templates want the sides to take turns. Where the turns end with the AI's text, a
    user message asks for the call.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for number, turn in enumerate(turns):
        last = messages[-1]
        if turn["role"] == "API":
            if last["role"] != "assistant":
                last = {"role": "assistant", "content": ""}
                messages.append(last)
            identity = f"call{number:05}"
            last["tool_calls"] = [_call(turn, identity)]
            messages.append({"role": "tool", "tool_call_id": identity, "content": _result(turn)})
            continue
        role = {"User": "user", "AI": "assistant"}.get(turn["role"])
        if role is None:
            raise ValueError(f"role {turn['role']!r} is none of User, AI, API")
        if last["role"] == role:
            last["content"] += "\n" + turn["text"]
        else:
            messages.append({"role": role, "content": str(turn["text"])})
    if messages[-1]["role"] in ("assistant", "system"):
        messages.append({"role": "user", "content": NEXT_CALL})
    return messages


def found_apis(turn: Mapping[str, Any]) -> list[Api]:
    """The APIs that a turn's result describes, where it is a search's: one, or a list of them."""
    output = _output(turn)
    described = output if isinstance(output, list) else [output]
    is_found = described and all(isinstance(one, dict) and "input_parameters" in one for one in described)
    return [Api.of(one) for one in described] if is_found else []


def _call(turn: Mapping[str, Any], identity: str) -> dict[str, Any]:
    arguments = json.dumps(turn["param_dict"], ensure_ascii=False)
    function = {"name": turn["api_name"], "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def _result(turn: Mapping[str, Any]) -> str:
    """What the tool answered; of APIs that were found only the names, as they are tools from now on."""
    found = found_apis(turn)
    output = [{"name": api.name} for api in found] if found else _output(turn)
    result = turn.get("result")
    exception = result.get("exception") if isinstance(result, Mapping) else None
    shown = output if exception is None else {"output": output, "exception": exception}
    return json.dumps(shown, ensure_ascii=False)


def _output(turn: Mapping[str, Any]) -> Any:
    result = turn.get("result")
    return result.get("output") if isinstance(result, Mapping) else result
