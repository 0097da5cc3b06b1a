"""Many streams at a time: each client gets its own chunks, all of them, in order (a short benchmark run)."""

from __future__ import annotations

import argparse
import sys

import pytest

from benchmarks.gateway_load import run


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_no_chunk_is_lost_or_mixed_up() -> None:
    options = argparse.Namespace(clients=12, seconds=1.0, turn=0.5, calls_alone=5, chunks=8, interval=0.01)
    results = run(options)
    assert results["problems"] == []
    for target in ("gateway", "bare"):
        row = results["together"][target]
        assert row["num_problems"] == 0
        assert row["num_calls"] >= 12
        assert row["num_chunks"] == 8 * row["num_calls"]
        assert results["alone"][target]["num_chunks"] == 5
