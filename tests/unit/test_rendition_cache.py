"""Renditions shared between processes: found again, never different from those that would be made."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from asymspec_agents.compress import AutoCompressor, Rendition
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.rendition_cache import SQLiteRenditionCache
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import TokenCounter
from asymspec_agents.views import ViewPolicy
from tests.routing import conversations

MESSAGES = [
    {"role": "user", "content": "Which port does it listen on?"},
    {"role": "user", "content": "Observation:\n" + "A line about something else altogether.\n" * 300},
]


class Counting:
    """AutoCompressor, counted."""

    def __init__(self, version: str = "1", fails: bool = False) -> None:
        self.num_made = 0
        self.configuration = f"counting/{version}"
        self._fails = fails

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        self.num_made += 1
        if self._fails:
            raise RuntimeError("broken")
        return AutoCompressor().compress(text, query=query, target_tokens=target_tokens, counter=counter)


class Dictionary:
    """A cache of a few lines."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: str, rendition: bytes) -> None:
        self.kept[key] = rendition


def route(cache: Any, compressor: Any, **policy: Any) -> tuple[str, ...]:
    router = ContextRouter(ViewPolicy(**policy), compressor=compressor, rendition_cache=cache)
    return tuple(text for message in router.route(MESSAGES).compressed for text in message.texts())


def test_another_process_finds_what_one_made(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    views = [route(SQLiteRenditionCache(tmp_path / "cache"), compressor) for compressor in (first, second)]
    assert views[0] == views[1] == route(None, Counting())
    assert (first.num_made, second.num_made) == (1, 0)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("compressor", "policy"),
    [(Counting("2"), {}), (Counting(), {"min_gain": 0.2}), (Counting(), {"protected": ("port",)})],
)
def test_another_configuration_finds_nothing(compressor: Counting, policy: dict[str, Any]) -> None:
    cache = Dictionary()
    route(cache, Counting())
    route(cache, compressor, **policy)
    assert compressor.num_made == 1


def test_what_failed_is_not_shared() -> None:
    cache = Dictionary()
    route(cache, Counting(fails=True))
    assert not cache.kept
    route(cache, compressor := Counting())
    assert compressor.num_made == 1


@pytest.mark.parametrize("broken", [b"", b"{}", b"[]", b"\xff", b'["a", "b", "c"]', b"[1, 2, 3]"])
def test_what_is_no_rendition_is_made_again(broken: bytes) -> None:
    cache = Dictionary()
    expected = route(cache, Counting())
    cache.kept = dict.fromkeys(cache.kept, broken)
    assert route(cache, Counting()) == expected


def test_a_locked_or_closed_file_costs_the_sharing_only(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    cache = SQLiteRenditionCache(path)
    locking = sqlite3.connect(path, isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    assert route(cache, Counting()) == route(None, Counting())
    locking.close()
    cache.close()
    assert route(cache, Counting()) == route(None, Counting())


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a database, by far")
    with pytest.raises(ConfigurationError, match="cache"):
        SQLiteRenditionCache(tmp_path / "cache")


shared = Dictionary()


@settings(max_examples=30)
@given(conversations)
def test_views_are_the_same_with_and_without(messages: list[dict[str, Any]]) -> None:
    policy = ViewPolicy(first_sight_tokens=20, min_part_tokens=5, max_rendition_tokens=30)
    made = ContextRouter(policy, rendition_cache=shared).route(messages)
    found = ContextRouter(policy, rendition_cache=shared).route(messages)
    alone = ContextRouter(policy).route(messages)
    assert made.edits == found.edits == alone.edits
    assert made.report == found.report == alone.report


def test_every_text_survives_the_file(tmp_path: Path) -> None:
    text = "\ud800 \u2028 😀\x00"
    cache = SQLiteRenditionCache(tmp_path / "cache")
    cache.put("0" * 64, json.dumps([text]).encode())
    kept = cache.get("0" * 64)
    assert kept is not None
    assert json.loads(kept) == [text]
    assert cache.get("1" * 64) is None
