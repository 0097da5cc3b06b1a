"""One upstream and gateway for every test that needs no options of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway import serving
from tests.gateway.scripted import Upstream


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[tuple[Upstream, str]]:
    with serving.apart() as pair:
        yield pair


@pytest.fixture
def pair(shared_pair: tuple[Upstream, str]) -> tuple[Upstream, str]:
    """A scripted upstream, as good as new, and the address of the gateway over it."""
    shared_pair[0].reset()
    return shared_pair
