"""Summaries by a language model: of single texts, and of all old turns of a conversation.

Reading order: `prompts` (what the model is asked), `calls` (one bounded call), `compressor` (a text of any
length to its summary), `history` (which messages a summary stands for), `router` (the view made of it).
"""

from .compressor import SummaryCompressor
from .history import HistorySummary
from .router import SummaryRouter

__all__ = ["HistorySummary", "SummaryCompressor", "SummaryRouter"]
