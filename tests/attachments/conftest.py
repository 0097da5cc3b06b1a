"""One converting process for the tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asymspec_agents.attachments import Attachments


@pytest.fixture(scope="session")
def attachments() -> Iterator[Attachments]:
    with Attachments() as made:
        yield made
