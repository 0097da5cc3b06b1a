"""What `asymspec demo` asks of the agent: its tools, the tasks, and the items the answers are judged by.

The formats the register wants stand only in the long documentation of `record_reading`, which the verifier
sees as a signature; what is asked about the log stands in a tool output of some 2,000 tokens. The items are
fixed here and printed before any model runs. Counting (an id padded to eight digits, in an earlier form) is
not among them: the verifier got it wrong with everything in view, so it says nothing about context.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from smolagents import Tool

__all__ = ["TASKS", "Item", "Outcome", "Task", "tools_for"]


@dataclass(slots=True)
class Outcome:
    """What an agent did with one task: the calls that reached `record_reading`, and its final answer."""

    recorded: list[dict[str, Any]] = field(default_factory=list)
    answer: str = ""

    def last(self, argument: str) -> Any:
        """An argument of the last call, None where there was none."""
        return self.recorded[-1].get(argument) if self.recorded else None


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to get right."""

    name: str
    wanted: str
    is_right: Callable[[Outcome], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """One request to the agent and its items; done once `is_done`, or when the agent gives its answer."""

    request: str
    items: tuple[Item, ...]
    is_done: Callable[[Outcome], bool] = lambda outcome: False


class RecordReading(Tool):  # type: ignore[misc]  # smolagents has no types
    """A register that is strict about formats."""

    name = "record_reading"
    description = """Stores one reading of a field station in the register of the water authority.

How the register wants its values:
- station: the number painted on the station, as a string.
- measured_at: when the reading was taken, in local time, written YYYY-MM-DDTHH:MM:SS with a capital T \
between date and time. Seconds are required; where none were noted they are 00. Dates in words, with \
slashes or without seconds are refused.
- values: a list with one object for every quantity that was read, each of the form {"quantity": ..., \
"value": ..., "unit": ...}. The quantity is one of "level", "flow", "temperature" and "turbidity"; the \
value is a number, never a string; the unit is "m" for level, "m3/s" for flow, "degC" for temperature and \
"NTU" for turbidity. A plain object such as {"level": 1.2} is refused, and so is a string.
- The register keeps no drafts: a call stores everything or nothing, and a refused call must be sent again \
with all of its arguments."""
    inputs: ClassVar[dict[str, Any]] = {
        "station": {"type": "string", "description": "Number of the station."},
        "measured_at": {
            "type": "string",
            "description": 'Local time as YYYY-MM-DDTHH:MM:SS, for example "2024-11-30T18:20:00".',
        },
        "values": {
            "type": "array",
            "description": "List of objects with quantity, value and unit, for example "
            '[{"quantity": "flow", "value": 3.4, "unit": "m3/s"}].',
        },
    }
    output_type = "string"

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self._outcome = outcome

    def forward(self, station: str, measured_at: str, values: list[Any]) -> str:
        self._outcome.recorded.append({"station": station, "measured_at": measured_at, "values": values})
        return "The reading was received."


class ReadLog(Tool):  # type: ignore[misc]  # smolagents has no types
    """A long output with a few lines that matter."""

    name = "read_log"
    description = "Returns the maintenance log of a field station, oldest entry first, one entry a line."
    inputs: ClassVar[dict[str, Any]] = {
        "station": {"type": "string", "description": "Number of the station."}
    }
    output_type = "string"

    def forward(self, station: str) -> str:
        return maintenance_log()


def maintenance_log() -> str:
    """Seventy entries, the same every time; the pump was replaced once."""
    dice = random.Random(4471)
    people = ("Alvarez", "Brandt", "Cho", "Dubois", "Eriksen", "Farouk", "Greco")
    jobs = (
        "cleaned the gauge glass",
        "checked the battery, {volts} V",
        "replaced the desiccant, lot {number}",
        "read the logger, {number} records",
        "tightened the mast, {number} Nm",
        "calibrated the level sensor, offset {volts} mm",
        "removed driftwood from the inlet",
        "greased the hatch",
    )
    lines = []
    for entry in range(70):
        month, day = divmod(entry * 3, 28)
        job = dice.choice(jobs).format(volts=round(dice.uniform(1, 14), 1), number=dice.randint(20, 900))
        if entry == 41:
            job = "replaced the main pump by model KX-4471-Z, serial 88213-D"
        person = dice.choice(people)
        lines.append(
            f"2026-{month + 1:02d}-{day + 1:02d} {person}: {job}; next visit in {dice.randint(2, 9)} days"
        )
    return "\n".join(lines)


def tools_for(outcome: Outcome) -> list[Tool]:
    """The agent's tools; what they are called with goes into `outcome`."""
    return [RecordReading(outcome), ReadLog()]


def _recorded(name: str, wanted: Any) -> Item:
    return Item(f"{name} in the call", repr(wanted), lambda outcome: outcome.last(name) == wanted)


def _answered(name: str, wanted: str) -> Item:
    return Item(f"{name} in the answer", repr(wanted), lambda outcome: wanted in outcome.answer)


def _is_recorded(outcome: Outcome) -> bool:
    return bool(outcome.recorded)


def _value(quantity: str, value: float, unit: str) -> dict[str, Any]:
    return {"quantity": quantity, "value": value, "unit": unit}


TASKS = (
    Task(
        "Record this reading: station 4471, 7 March 2026 at 9:05 a.m., level 1.82, temperature 11.5.",
        (
            _recorded("measured_at", "2026-03-07T09:05:00"),
            _recorded("values", [_value("level", 1.82, "m"), _value("temperature", 11.5, "degC")]),
        ),
        _is_recorded,
    ),
    Task(
        "Read the log of station 4471. Which model is its new main pump, and what is its serial number?",
        (_answered("model", "KX-4471-Z"), _answered("serial number", "88213-D")),
    ),
    Task(
        "Record this reading: station 86, 12 November 2025 at 6:40 p.m., flow 3.4, turbidity 12.",
        (
            _recorded("measured_at", "2025-11-12T18:40:00"),
            _recorded("values", [_value("flow", 3.4, "m3/s"), _value("turbidity", 12, "NTU")]),
        ),
        _is_recorded,
    ),
)
