"""Single samples in the page: what each arm answered, from which views, and where each token came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..record_log import read_at
from ..records import Call, Output, Record
from ..run_folder import Run
from .indexed import Indexed
from .results import SuiteResult
from .safe import clipped, safe
from .wording import points

__all__ = ["MAX_SAMPLES", "drill_down"]

MAX_SAMPLES = 100
MAX_BYTES = 4_000_000
_MAX_CELLS = 24
_ANSWER_CHARS, _VIEW_CHARS, _MAX_SEGMENTS = 4_000, 6_000, 1_500
_LEGEND = (
    ("accepted", "drafted and accepted (underlined)"),
    ("fused", "fused at a refusal (bold, dotted)"),
    ("bonus", "the verifier's bonus (italic, wavy)"),
    ("plain", "not speculative (as it is)"),
)


@dataclass(frozen=True, slots=True)
class _Shown:
    cells: tuple[str, ...]
    samples: tuple[str, ...]


def drill_down(
    run: Run,
    data: Indexed,
    suite: SuiteResult,
    main: str | None,
    floor: str | None,
    max_bytes: int = MAX_BYTES,
) -> str:
    """At most `MAX_SAMPLES` of a suite as HTML, in about `max_bytes`; those where arms differ first."""
    shown = _choose(data)
    parts: list[str] = []
    size = 0
    for sample in shown.samples:
        part = _sample(run, data, shown.cells, sample, suite.shows_texts)
        size += len(part.encode())
        if size > max_bytes:
            break
        parts.append(part)
    rest = len(data.samples) - len(parts)
    note = f"{len(parts)} of {len(data.samples)} samples are shown, those where arms differ first."
    if rest:
        note += " All are in the run's records.jsonl, one line each."
    if len(data.cells) > _MAX_CELLS:
        note += f" {_MAX_CELLS} of {len(data.cells)} arms are shown."
    if not suite.shows_texts:
        note += " Texts are not shown: the suite's terms, or not knowing them, forbid it."
    legend = "".join(
        f'<span><span class="{name}">{name}</span>: {safe(means)}</span>' for name, means in _LEGEND
    )
    return (
        f'<section class="drill"><h3>Samples</h3><p class="soft">{safe(note)}</p>'
        + (f'<p class="legend soft">{legend}</p>' if suite.shows_texts else "")
        + _filter(shown.cells, main, floor)
        + "".join(parts)
        + "</section>"
    )


def _choose(data: Indexed) -> _Shown:
    differing: list[str] = []
    alike: list[str] = []
    for sample in data.samples:
        values = {round(by[sample], 6) for by in data.values.values() if sample in by}
        (differing if len(values) > 1 else alike).append(sample)
    return _Shown(tuple(data.cells)[:_MAX_CELLS], tuple((differing + alike)[:MAX_SAMPLES]))


def _filter(cells: Sequence[str], main: str | None, floor: str | None) -> str:
    def options(chosen: str | None) -> str:
        return "".join(
            f'<option value="{number}"{" selected" if cell == chosen else ""}>{safe(cell)}</option>'
            for number, cell in enumerate(cells)
        )

    relations = (("any", "any outcome"), ("beats", "beats"), ("loses", "loses to"), ("ties", "ties with"))
    chosen = "".join(f'<option value="{value}">{text}</option>' for value, text in relations)
    return (
        f'<div class="filter" hidden><label>Show samples where <select>{options(main)}</select></label>'
        f'<select aria-label="outcome">{chosen}</select>'
        f'<select aria-label="other arm">{options(floor)}</select><output class="soft"></output></div>'
    )


def _sample(run: Run, data: Indexed, cells: Sequence[str], sample: str, shows_texts: bool) -> str:
    values = [data.values[cell].get(sample) for cell in cells]
    scores = " ".join(
        f'<span class="badge">{safe(cell)} {points(value)}</span>'
        for cell, value in zip(cells[:6], values, strict=False)
        if value is not None
    )
    head = (
        f'<details class="sample" data-values="{safe(json.dumps(values))}">'
        f"<summary><code>{safe(clipped(sample, 120))}</code> {scores}</summary>"
    )
    records = _records(run, data.name, sample, cells) if shows_texts else {}
    bodies = [_answer(data, cell, sample, records.get(cell)) for cell in cells if sample in data.cells[cell]]
    return head + "".join(bodies) + "".join(_views(records)) + "</details>"


def _records(run: Run, suite: str, sample: str, cells: Sequence[str]) -> dict[str, Record]:
    keys = [(suite, sample, cell) for cell in cells]
    entries = [run.log.entries[key] for key in keys if key in run.log.entries]
    return {record.cell: record for record in read_at(run.folder / "records.jsonl", iter(entries))}


def _answer(data: Indexed, cell: str, sample: str, record: Record | None) -> str:
    kept = data.cells[cell][sample]
    badge = f'<span class="badge">{points(data.values[cell][sample])}</span>'
    failure = kept.failure
    if failure is not None:
        stage = "not judged" if failure.stage == "score" else "failed"
        badge += f' <span class="badge failed">{stage}: {safe(clipped(failure.error_type, 80))}</span>'
    text = ""
    if record is not None:
        if record.failure is not None:
            text += f"<pre>{safe(clipped(record.failure.message, 1_000))}</pre>"
        if record.output is not None:
            text += _output(record.output)
        if record.score is not None and record.score.details:
            details = json.dumps(record.score.details, ensure_ascii=False, indent=1, default=str)
            text += f"<details><summary>Score</summary><pre>{safe(clipped(details, 2_000))}</pre></details>"
    return f'<div class="answer"><strong>{safe(cell)}</strong> {badge}{text}</div>'


def _output(output: Output) -> str:
    parts = [f"<pre>{safe(clipped(output.answer, _ANSWER_CHARS)) or '(empty)'}</pre>"]
    if output.tool_calls:
        calls = json.dumps(output.tool_calls, ensure_ascii=False, indent=1, default=str)
        parts.append(f"<pre>{safe(clipped(calls, _ANSWER_CHARS))}</pre>")
    if output.calls and output.calls[-1].segments:
        name = (
            "Token origins" if len(output.calls) == 1 else f"Token origins, last of {len(output.calls)} calls"
        )
        parts.append(f"<details><summary>{name}</summary><pre>{_origins(output.calls[-1])}</pre></details>")
    if output.trajectory:
        steps = json.dumps(output.trajectory, ensure_ascii=False, indent=1, default=str)
        parts.append(
            f"<details><summary>Trajectory</summary><pre>{safe(clipped(steps, 8_000))}</pre></details>"
        )
    return "".join(parts)


def _origins(call: Call) -> str:
    """The answer in spans by origin; what is beyond the limits is told by its number of pieces."""
    spans, room = [], 2 * _ANSWER_CHARS
    kinds = {name for name, _ in _LEGEND}
    for number, segment in enumerate(call.segments):
        text, origin = segment
        if number == _MAX_SEGMENTS or room <= 0:
            spans.append(f"… {len(call.segments) - number} more pieces")
            break
        kind = origin if origin in kinds else "plain"
        spans.append(f'<span class="{kind}" title="{kind}">{safe(clipped(text, max(2, room)))}</span>')
        room -= len(text)
    return "".join(spans)


def _views(records: Mapping[str, Record]) -> Iterator[str]:
    """Each pair of views once, with the arms that read it."""
    readers: dict[str, list[str]] = {}
    for cell, record in records.items():
        if record.output is not None and record.output.views:
            body = "".join(_pair(view) for view in record.output.views[:20])
            left = len(record.output.views) - 20
            readers.setdefault(body + (f"<p>{left} more</p>" if left > 0 else ""), []).append(cell)
    for body, cells in readers.items():
        names = safe(clipped(", ".join(cells), 300))
        yield f"<details><summary>Both views, as read by {names}</summary>{body}</details>"


def _pair(view: Mapping[str, object]) -> str:
    place = " ".join(str(view[name]) for name in ("role", "place") if view.get(name))
    cut = " (cut)" if view.get("is_cut") else ""
    sides = "".join(
        f'<div><span class="soft">{name}, {len(text):,} characters{cut}</span>'
        f"<pre>{safe(clipped(text, _VIEW_CHARS))}</pre></div>"
        for name in ("full", "compressed")
        for text in [str(view.get(name, ""))]
    )
    return f'<p class="soft">{safe(clipped(place, 200))}</p><div class="views">{sides}</div>'
