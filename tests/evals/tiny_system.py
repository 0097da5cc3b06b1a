"""Tiny models under test: a made-up sample, and every arm asked about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asymspec_agents.backends import ChatResponse
from evals.cells import Cell
from evals.records import Output
from evals.sample import LongPart, Sample
from evals.systems import System, SystemOptions
from tests.engine.tiny_folder import WEATHER, save_pair

__all__ = ["LONG", "QUERY", "asked", "made_up_sample", "tiny_options"]

LONG = "".join(
    f"Line {i} of the log says {'nothing' if i != 7 else 'that the pump failed'}. " for i in range(16)
)
QUERY = "Which line says that the pump failed?"


def made_up_sample(*, with_tools: bool = False) -> Sample:
    """A question about a log, which a view may shorten."""
    return Sample(
        suite="made-up",
        id="1",
        messages=(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": LONG},
            {"role": "user", "content": QUERY},
        ),
        tools=(WEATHER,) if with_tools else (),
        query=QUERY,
        long_parts=(LongPart(1),),
        max_tokens=24,
    )


def tiny_options(folder: Path, **options: Any) -> SystemOptions:
    """Options of a system over the tiny pair, whose folders are written."""
    verifier, drafter = save_pair(folder)
    return SystemOptions(verifier=str(verifier), drafter=str(drafter), dtype="float32", **options)


def asked(system: System, cell: str, sample: Sample | None = None) -> tuple[ChatResponse, Output]:
    """The answer of a cell to the sample, and its output."""
    sample = made_up_sample() if sample is None else sample
    asker = system.asker(None, sample, Cell.parse(cell))  # type: ignore[arg-type]  # no suite is needed
    response = asker.ask(
        sample.messages,
        sample.tools,
        query=sample.query,
        long_parts=sample.long_parts,
        max_tokens=sample.max_tokens,
    )
    return response, asker.output(response.content)
