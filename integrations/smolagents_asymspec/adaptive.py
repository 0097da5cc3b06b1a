"""The adaptive ratio of a model's conversations: one state for each, told apart by how it begins."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.recording import Recorder
from asymspec_agents.store import content_hash
from asymspec_agents.views import RateControl, RateState

__all__ = ["AdaptiveRates", "opening_key"]

MAX_CONVERSATIONS = 1_000  # of which the states are kept; the least recently used go first


class AdaptiveRates:
    """Reads each conversation's answers and says how its next turns are compressed; thread-safe.

    Agents that share a model, and the calls of one agent that begin differently (plans, steps), have a state
    each, so that none rewrites what another has shown.
    """

    def __init__(self, control: RateControl, recorder: Recorder) -> None:
        if not isinstance(control, RateControl):
            raise ConfigurationError(f"rate must be a RateControl, not {type(control).__name__}")
        self.control = control
        self._recorder = recorder
        self._lock = threading.Lock()
        self._states: OrderedDict[str, RateState] = OrderedDict()

    def state(self, key: str) -> RateState:
        """The state of a conversation as it is now; a fresh one for a new conversation."""
        with self._lock:
            return self._states.get(key, RateState())

    def saw(self, key: str, num_turns: int) -> None:
        """So many turns of the conversation were routed: they stay as they are from now on."""
        with self._lock:
            self._keep(key, self._states.get(key, RateState()).seen(num_turns))

    def read(self, key: str, report: AsymSpecReport | None) -> None:
        """Takes in an answer's report."""
        with self._lock:
            state = self._states.get(key, RateState())
            self._keep(key, self.control.after(state, report, num_turns=0, recorder=self._recorder))

    def _keep(self, key: str, state: RateState) -> None:
        self._states[key] = state
        self._states.move_to_end(key)
        if len(self._states) > MAX_CONVERSATIONS:
            self._states.popitem(last=False)


def opening_key(messages: Sequence[Message]) -> str:
    """What a conversation is told by: the texts up to and with its first message of the user."""
    opening: list[str] = []
    for message in messages:
        opening += (message.role, *message.texts())
        if message.role == "user":
            break
    return content_hash("\n".join(opening))
