"""What vLLM has to be told of a pair's vocabularies before it starts.

vLLM compares the rows of logits of both models. Where they differ it takes the pair only as one of two
vocabularies, which its second model runner doesn't know: such a pair runs on the first, without asynchronous
scheduling. A drafter padded to the verifier's rows (tools/pad_drafter.py) runs on either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asymspec_agents.decoding.vocab_file import load_map
from asymspec_agents.errors import IncompatibleModelsError

from .family import AUTO

__all__ = ["IN_TURN_ONLY", "Vocabularies"]

IN_TURN_ONLY = (
    "vLLM takes a pair with different numbers of rows of logits on its first model runner only, which drafts "
    "in turn; leave it out, or pad the drafter (asymspec vllm pad-drafter)"
)


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """How a pair is served. `settings` are PluginConfig's, `speculative` vLLM's of its speculative decoding.

    `needs_first_runner`: only vLLM's first model runner takes the pair, and only in turn.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    speculative: Mapping[str, Any] = field(default_factory=dict)
    needs_first_runner: bool = False

    @classmethod
    def of(cls, verifier: str, drafter: str, vocab_map: str | Path | None) -> Vocabularies:
        """Of two models by folder or hub name, and the map that was chosen: "auto", a file, or None.

        Raises IncompatibleModelsError for folders with different numbers of rows and no map, or a map of
        other vocabularies, and ConfigurationError for a file that holds none.
        """
        sizes = _num_rows(verifier), _num_rows(drafter)
        is_equal = None not in sizes and sizes[0] == sizes[1]
        if vocab_map is None:
            if None not in sizes and not is_equal:
                raise IncompatibleModelsError(
                    f"{verifier} has {sizes[0]:,} rows of logits, {drafter} {sizes[1]:,}: if both are "
                    "of one family, pad the drafter (asymspec vllm pad-drafter); if not, let it take part "
                    "through a vocabulary map (--vocab-map auto, or vocab_map)"
                )
            return cls()
        place = str(vocab_map)
        if place != AUTO:
            _check_map(place, verifier, drafter)
            place = str(Path(place).resolve())
        return cls(
            settings={"vocab_map": place},
            speculative={} if is_equal else {"use_heterogeneous_vocab": True},
            needs_first_runner=not is_equal,
        )


def _check_map(place: str, verifier: str, drafter: str) -> None:
    """Checks a file before a server is started for it; of a model that is no folder, the server will."""
    vocab_map = load_map(place)
    if Path(verifier).is_dir() and Path(drafter).is_dir():
        from asymspec_agents.engine.load import load_speller

        vocab_map.check(load_speller(verifier).vocabulary, load_speller(drafter).vocabulary)


def _num_rows(model: str) -> int | None:
    """Rows of logits of a model in a local folder; None where the folder doesn't tell, or is none."""
    try:
        config = json.loads((Path(model) / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    inner = config.get("text_config") if isinstance(config, dict) else None
    for part in (inner, config):
        size = part.get("vocab_size") if isinstance(part, dict) else None
        if isinstance(size, int):
            return size
    return None
