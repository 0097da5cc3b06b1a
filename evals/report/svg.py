"""Plots as SVG that stands inside a page: its colours are the page's, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from asymspec_agents.errors import MissingDependencyError

from .safe import safe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MARKERS", "STYLES", "drawing", "label", "series_colour", "svg_of"]

# Written by matplotlib, replaced by variables of the page's style.
_INK, _FAINT = "#010101", "#020202"
_NUM_COLOURS = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLES = ("-", "--", "-.", ":")

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": 10,
    "axes.unicode_minus": True,
    "grid.color": _FAINT,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.parse_math": False,
}


def series_colour(number: int) -> str:
    """The colour of the n-th series."""
    return f"#0301{number % _NUM_COLOURS:02x}"


def label(text: str, limit: int = 40) -> str:
    """A name as a label: on one line, not too long, of letters that the plots' own font can measure."""
    text = "".join(c if c < "\u0250" or c in "–−…×αβγδ" else "?" for c in " ".join(text.split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@contextmanager
def drawing(width: float = 7.0, height: float = 3.6) -> Iterator[Figure]:
    """A new figure, in inches at 100 dots; its style holds inside the block only."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("matplotlib", "evals") from None
    style: Any = {**_STYLE, "svg.hashsalt": "asymspec"}
    with mpl.rc_context(style):
        yield Figure(figsize=(width, height), dpi=100, layout="constrained")


def svg_of(figure: Figure, name: str, title: str) -> str:
    """The figure as one `<svg>` element; `name` keeps its ids apart from others of the page."""
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text[text.index("<svg") :]
    text = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace(_INK, "var(--ink)").replace(_FAINT, "var(--line)")
    text = re.sub(r"#0301(\d\d)", lambda found: f"var(--series-{int(found.group(1))})", text)
    # Wide plots scroll instead of shrinking to what can't be read.
    head = f"<title>{safe(title)}</title>"
    text = re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        lambda found: f'<svg role="img" viewBox="{found.group(1)}">{head}',
        text,
        count=1,
    )
    return text.replace("xlink:href", "href")
