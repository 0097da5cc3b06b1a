"""What `benchmarks/vllm.py` measures: engines, the arms each of them serves, and the cells of the grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["ARMS", "ENGINES", "PLANS", "Arm", "Arrival", "Cell", "EngineName", "Plan", "Turns"]

EngineName = Literal["asymspec", "plain", "draft"]


@dataclass(frozen=True, slots=True)
class Arm:
    """Who reads what. `prompt`: the view that is vLLM's prompt; `reads_both`: a request of this plugin's."""

    name: str
    engine: EngineName
    prompt: Literal["full", "compressed"]
    reads_both: bool = False

    @property
    def reads_full_only(self) -> bool:
        """Whether the compressed view makes no difference."""
        return self.prompt == "full"


ARMS = (
    Arm("asymspec", "asymspec", "compressed", reads_both=True),
    Arm("plain full", "plain", "full"),
    Arm("plain compressed", "plain", "compressed"),
    Arm("draft full", "draft", "full"),
    Arm("draft compressed", "draft", "compressed"),
)
ENGINES: tuple[EngineName, ...] = ("asymspec", "plain", "draft")


@dataclass(frozen=True, slots=True)
class Cell:
    """`batch` requests that come at once, with caches empty; the compressed view is `share` of the full."""

    full_tokens: int
    share: float
    batch: int
    output_tokens: int

    @property
    def compressed_tokens(self) -> int:
        """Tokens of the compressed view."""
        return max(2, round(self.full_tokens * self.share))


@dataclass(frozen=True, slots=True)
class Turns:
    """A conversation that grows by a tool output of `turn_tokens` a turn, caches kept."""

    num_turns: int
    turn_tokens: int
    share: float
    output_tokens: int

    @property
    def full_tokens(self) -> int:
        """Tokens of the last turn's full view, at most, and its answer."""
        return self.num_turns * (self.turn_tokens + self.output_tokens)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request with a view of `full_tokens` comes while another, of `own_tokens`, decodes."""

    own_tokens: int
    full_tokens: int
    share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A run. `acceptance`: the chance of each draft where weights are random; None has the models decide."""

    cells: tuple[Cell, ...]
    turns: Turns | None = None
    arrival: Arrival | None = None
    acceptance: float | None = None
    kv_bytes: int = 768 * 2**20
    pool_bytes: int = 384 * 2**20
    max_num_batched_tokens: int = 2048
    engines: tuple[EngineName, ...] = field(default=ENGINES)

    @property
    def num_tokens(self) -> int:
        """Tokens of text the plan needs."""
        sizes = [cell.full_tokens * cell.batch for cell in self.cells]
        sizes += [self.turns.full_tokens] if self.turns else []
        sizes += [self.arrival.own_tokens + self.arrival.full_tokens] if self.arrival else []
        return max(sizes)

    @property
    def max_len(self) -> int:
        """The longest view with its answer."""
        sizes = [cell.full_tokens + cell.output_tokens for cell in self.cells]
        sizes += [self.turns.full_tokens] if self.turns else []
        sizes += [self.arrival.full_tokens + ARRIVAL_OUTPUT_TOKENS] if self.arrival else []
        return max(sizes)


ARRIVAL_OUTPUT_TOKENS = 256  # at most: the request that decodes ends once the other has its first token

PLANS = {
    # Shares other than 0.2 at 2k only, batches at 1k only: so it ends within 25 minutes on 2 quiet cores.
    # Batches answer longer, so that their first request still decodes when the last one starts to.
    "real": Plan(
        cells=(
            Cell(1024, 0.2, 1, 40),
            *(Cell(2048, share, 1, 40) for share in (0.1, 0.2, 0.3)),
            Cell(4096, 0.2, 1, 40),
            Cell(1024, 0.2, 4, 64),
            Cell(1024, 0.2, 8, 96),
        ),
        turns=Turns(6, 300, 0.2, 16),
        arrival=Arrival(256, 2048, 0.2),
    ),
    "small": Plan(
        cells=(Cell(64, 0.2, 1, 12), Cell(256, 0.1, 1, 12), Cell(64, 0.3, 4, 12)),
        turns=Turns(3, 150, 0.2, 6),
        arrival=Arrival(32, 256, 0.2),
        kv_bytes=16 * 2**20,
        pool_bytes=16 * 2**20,
        max_num_batched_tokens=256,
    ),
    "ratio": Plan(
        cells=(Cell(1024, 0.2, 1, 32), Cell(2048, 0.2, 1, 32)),
        acceptance=0.8,
        kv_bytes=640 * 2**20,
        pool_bytes=128 * 2**20,
    ),
}
