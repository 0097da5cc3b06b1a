"""The compressed view of a conversation: what stays verbatim, what is compressed, and how far.

Reading order: `policy` (the settings), `turns` (messages read as turns), `replay` and `fold` (the tier of
every part, as a fold over the list from its start), `renditions` (what a part shows at a tier), `tool_view`
(tools and their docs as signatures), `fitting` (both budgets), `routed` (the result).
"""

from .policy import ViewPolicy

__all__ = ["ViewPolicy"]
