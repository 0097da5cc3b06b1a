"""A run's report (Markdown, a page, JSON), the comparison of two runs, and the table of a README."""

from __future__ import annotations

from .comparing import compare
from .readme import results_table
from .writing import write_report

__all__ = ["compare", "results_table", "write_report"]
