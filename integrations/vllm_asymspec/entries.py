"""What the scheduler keeps of one request: its views, and how far the drafter has read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asymspec_agents.decoding.transcript import Transcript

from .images import Span
from .plan import ViewName
from .pool import block_hashes
from .reading import Reading
from .tally import Tally
from .wire_args import BYTES_PER_ID

__all__ = ["NUM_REFED", "Entry", "Images", "View"]

NUM_REFED = 2  # tokens that every draft round reads again

Images = Sequence[Any]


@dataclass(slots=True)
class View:
    """One view of one request. `ids` and `names` are set when the request gets its slot."""

    name: ViewName
    prompt: bytes
    images: tuple[Span, ...] = ()
    ids: bytes = b""
    names: list[bytes] = field(default_factory=list)  # of the blocks that only hold tokens read beforehand
    blocks: list[int] = field(default_factory=list)
    num_read: int = 0
    num_shared: int = 0  # of those read, computed for somebody else

    @property
    def num_to_read(self) -> int:
        """Tokens still to be read before the first round."""
        return max(len(self.ids) // BYTES_PER_ID - NUM_REFED, 0) - self.num_read

    def begin(self, answer: bytes, num_unsettled: int, block_size: int, salt: str | None) -> None:
        """The view with the answer so far, of which the last `num_unsettled` tokens may be written anew."""
        ids = self.prompt + answer
        if ids != self.ids:
            self.ids = ids
            settled = ids[: -max(num_unsettled, NUM_REFED) * BYTES_PER_ID]
            self.names = list(block_hashes(settled, block_size, salt, self.images))


@dataclass(slots=True)
class Entry:
    """One request and its views; `transcript` is the answer in the tokens of a drafter of another family."""

    req_id: str
    reading: Reading
    salt: str | None
    views: tuple[View, ...]
    tally: Tally
    images: Images = ()
    transcript: Transcript | None = None
    num_begun: int = 0

    @property
    def num_prompt(self) -> int:
        """The length of the compressed prompt, in the verifier's tokens."""
        return self.tally.num_compressed

    def length(self, view: View, num_tokens: int) -> int:
        """The view's, with the answer, where the verifier's sequence has so many tokens."""
        if self.transcript is not None:
            return len(view.prompt) // BYTES_PER_ID + len(self.transcript.tokens)
        reading = self.reading
        return num_tokens + (reading.full_delta if view.name == "full" else reading.base_delta)
