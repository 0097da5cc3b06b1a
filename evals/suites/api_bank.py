"""API-Bank, levels 1 and 2: which API call comes next in a dialogue.

Each call of a dialogue is a sample: the turns before it are the conversation, its name and arguments the
answer. As officially (AlibabaResearch/DAMO-ConvAI, api-bank/evaluator.py), level 1 describes the APIs that
the dialogue calls, and level 2 only the search for APIs. Three things differ. APIs are given as tools and
called as such, and earlier calls stand in the conversation as tool calls with their results. An API that a
search has found is a tool from then on, and the search's result keeps its name alone, so that its description
stands in one place. The call is compared instead of executed: `scorers.api_call_match` says how, and the
figure is `api_call_match`, never API-Bank's accuracy. A call written as text in the official form, in
brackets, is read too; of several calls the first one counts, as officially. `api_call_match_any_form` is the
figure if calls shown as JSON or code within prose counted as well: the difference is what an arm loses by
form alone.

The calls of one dialogue depend on each other: `details["cluster"]` names the dialogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages, parse_tools

from ..records import Output, Score
from ..sample import LongPart, Sample
from ..scorers.api_call_match import CallMatch, match_call
from ..scorers.bracket_calls import read_bracket_call
from ..scorers.calls import ReadCalls, read_calls, read_calls_anywhere
from ..suite import Judge, Suite
from .api_bank_messages import NEXT_CALL, as_tool, conversation, found_apis
from .api_bank_release import Api, Dialogue, read_apis, read_dialogues

__all__ = ["ApiBank"]

SEARCH = "ToolSearcher"


class ApiBank(Suite):
    """The next API call of a dialogue."""

    has_tools = True
    name = "api_bank"
    title = "API-Bank, call match (not the official accuracy)"
    metric = "api_call_match"
    default_views = ("signature",)
    source = (
        "API-Bank levels 1 and 2, https://github.com/AlibabaResearch/DAMO-ConvAI, api-bank (Apache-2.0): "
        "--data takes it"
    )

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """A sample for each API call of the dialogues at `path`, which must be given."""
        apis = read_apis(path)
        samples: list[Sample] = []
        for dialogue in read_dialogues(path):
            for number, turn in enumerate(dialogue.turns):
                if turn.get("role") == "API":
                    samples.append(self._sample(dialogue, number, apis))
        if len({sample.id for sample in samples}) < len(samples):
            raise ConfigurationError(f"{path}: two dialogues of one split have the same file name")
        return samples

    def _sample(self, dialogue: Dialogue, number: int, apis: Mapping[str, Api]) -> Sample:
        identity = f"{dialogue.split}/{dialogue.file}#{number}"
        try:
            turn, before = dialogue.turns[number], dialogue.turns[:number]
            name, arguments = str(turn["api_name"]), dict(turn["param_dict"])
            messages = conversation(before)
            offered = _offered(dialogue, number, apis)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ConfigurationError(f"{self.name}: {identity} is no call of API-Bank: {reason}") from error
        types = {parameter: said.get("type", "") for parameter, said in _described(name, offered, apis)}
        users = [place for place, one in enumerate(messages) if one["role"] == "user"]
        asked = [place for place in users if messages[place]["content"] != NEXT_CALL]
        kept = {0, *users[-1:], *asked[-1:]}
        return Sample(
            suite=self.name,
            id=identity,
            messages=parse_messages(messages),
            tools=parse_tools([as_tool(api) for api in offered]),
            query="\n".join(messages[place]["content"] for place in asked),
            long_parts=tuple(
                LongPart(place) for place, one in enumerate(messages) if one["content"] and place not in kept
            ),
            gold={"name": name, "arguments": arguments},
            max_tokens=256,
            groups={
                "level": dialogue.split,
                "call": "search" if name == SEARCH else "api",
                "docs": "complete" if arguments.keys() <= types.keys() else "lack a parameter of the call",
            },
            details={"cluster": f"{dialogue.split}/{dialogue.file}", "documented": types},
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """1 where the first call is the dialogue's; `details` say what is wrong and where it stood."""
        read = read_calls(output, sample.tools)
        missing = "NO_API_CALL"
        bracketed = None if read.read_from in ("tool_calls", "json") else read_bracket_call(output.answer)
        if bracketed is not None:
            read = ReadCalls(tuple(filter(None, [bracketed.call])), "brackets")
            missing = "FAILED_PARSE_API_CALL"
        match = self._match(sample, read, missing)
        anywhere = read if read.calls else read_calls_anywhere(output, sample.tools)
        shown = anywhere if anywhere.calls else read
        any_form = self._match(sample, shown, missing)
        return Score(
            values={
                "api_call_match": float(match.is_right),
                "api_call_match_any_form": float(any_form.is_right),
            },
            details={
                "error": match.error,
                "parameter": match.parameter,
                "read_from": shown.read_from,
                "num_calls": len(shown.calls),
            },
        )

    def _match(self, sample: Sample, read: ReadCalls, missing: str) -> CallMatch:
        if not read.calls:
            return CallMatch(False, missing)
        gold = sample.gold
        return match_call(read.calls[0], gold["name"], gold["arguments"], sample.details["documented"])


def _offered(dialogue: Dialogue, number: int, apis: Mapping[str, Api]) -> list[Api]:
    """The APIs described before a turn: all that the dialogue calls, or the search and what it found."""
    if "toolsearcher" not in dialogue.split:
        called = [str(turn["api_name"]) for turn in dialogue.turns if turn.get("role") == "API"]
        names = list(dict.fromkeys(called))
        missing = [name for name in names if name not in apis]
        if missing:
            raise ValueError(f"no description of {missing[0]!r}")
        return [apis[name] for name in names]
    if SEARCH not in apis:
        raise ValueError(f"no description of {SEARCH!r}")
    found = {api.name: api for turn in dialogue.turns[:number] for api in found_apis(turn)}
    return [apis[SEARCH], *(api for api in found.values() if api.name != SEARCH)]


def _described(name: str, offered: Sequence[Api], apis: Mapping[str, Api]) -> list[tuple[str, Any]]:
    """The parameters of an API as the request describes it, or else as it is known."""
    known = {api.name: api for api in offered}
    api = known.get(name) or apis.get(name)
    return list(api.inputs.items()) if api is not None else []
