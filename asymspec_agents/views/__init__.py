"""The compressed view of a conversation: what stays verbatim, what is compressed, and how far.

Reading order: `policy` (the settings), `turns` (messages read as turns), `replay` and `fold` (the tier of
every part, as a fold over the list from its start), `extract_share` (extracts for the room there is),
`renditions` and `excerpt` (what a part shows at a tier, and in a cut full view), `tool_view` (tools and their
docs as signatures), `fitting` (both budgets), `routed` (the result); `rate` and `rate_control` (a compression
ratio that adapts).
"""

from .policy import ViewPolicy
from .rate import RateState
from .rate_control import RateControl

__all__ = ["RateControl", "RateState", "ViewPolicy"]
