"""The content store's contract, for the store in memory and the one in a file."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.sqlite_store import SQLiteStore
from asymspec_agents.store import ContentStore, MemoryStore, content_hash, short_reference

MakeStore = Callable[..., ContentStore]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> MakeStore:
    def make(**options: Any) -> ContentStore:
        if request.param == "memory":
            return MemoryStore(clock=clock, **options)
        return SQLiteStore(tmp_path / "store.db", clock=clock, **options)

    return make


def test_content_hash_is_sha256() -> None:
    assert content_hash("abc").startswith("ba7816bf8f01cfea")
    assert content_hash(b"abc") == content_hash("abc")
    assert content_hash("\ud800") != content_hash("\ufffd")
    assert short_reference("abc") == "sha256:ba7816bf8f01"


@pytest.mark.parametrize("content", ["", "text", "é中😀", "\ud83d\ude00", "\x00", b"", b"\xff\x00", b"text"])
def test_what_is_put_comes_back(make: MakeStore, content: str | bytes) -> None:
    store = make()
    digest = store.put(content)
    assert digest == content_hash(content)
    stored = store.get(digest)
    assert stored == (content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    if isinstance(content, str):
        assert store.get_text(digest) == content
    assert digest in store


def test_markers_reference_finds_the_original(make: MakeStore) -> None:
    store = make()
    store.put("other")
    digest = store.put("original")
    assert store.get_text(short_reference("original")) == "original"
    assert store.get_text(f"sha256:{digest}") == "original"
    assert store.get_text(digest.upper()) == "original"


@pytest.mark.parametrize("reference", ["", "sha256:", "0" * 64, "abc", "%", "zz" * 32, "0" * 65, "*" * 12])
def test_absent_and_malformed_references_are_none(make: MakeStore, reference: str) -> None:
    store = make()
    store.put("x")
    assert store.get(reference) is None
    assert store.get_text(reference) is None
    assert reference not in store


def test_bytes_that_are_not_text_have_no_text(make: MakeStore) -> None:
    store = make()
    assert store.get_text(store.put(b"\xff\xfe")) is None


def test_least_recently_used_goes_first(make: MakeStore) -> None:
    store = make(max_bytes=30)
    first, second = store.put("a" * 10), store.put("b" * 10)
    store.put("c" * 10)
    assert store.get(first) is not None  # used, so newer than the second
    store.put("d" * 10)
    assert first in store
    assert second not in store
    stats = store.stats()
    assert (stats.num_entries, stats.total_bytes, stats.num_evicted) == (3, 30, 1)


def test_too_large_is_refused_and_evicts_nothing(make: MakeStore) -> None:
    store = make(max_bytes=10)
    kept = store.put("kept")
    assert store.put("x" * 11) not in store
    assert kept in store
    assert store.stats().num_refused == 1


def test_putting_again_stores_once(make: MakeStore) -> None:
    store = make()
    store.put("same")
    store.put(b"same")
    assert (store.stats().num_entries, store.stats().total_bytes) == (1, 4)


def test_contents_expire_after_their_last_put(make: MakeStore, clock: Clock) -> None:
    store = make(ttl_s=60)
    old, renewed = store.put("old"), store.put("renewed")
    clock.now += 40
    store.put("renewed")
    store.get(old)  # reading does not keep a content longer
    clock.now += 20
    assert old not in store
    assert renewed in store
    assert (store.stats().num_entries, store.stats().num_expired) == (1, 1)


def test_without_ttl_nothing_expires(make: MakeStore, clock: Clock) -> None:
    store = make(ttl_s=None)
    digest = store.put("kept")
    clock.now += 1e9
    assert digest in store


def test_clear_forgets_everything(make: MakeStore) -> None:
    store = make()
    digest = store.put("secret")
    store.clear()
    assert digest not in store
    assert (store.stats().num_entries, store.stats().total_bytes) == (0, 0)


def test_repr_shows_no_content(make: MakeStore) -> None:
    store = make()
    store.put("hunter2")
    assert "hunter2" not in repr(store)
    assert content_hash("hunter2")[:8] not in repr(store)


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"max_bytes": -1}, {"ttl_s": 0}, {"ttl_s": float("nan")}]
)
def test_limits_are_checked(make: MakeStore, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        make(**options)


def test_threads_share_a_store(make: MakeStore) -> None:
    store = make(max_bytes=500)
    failures: list[str] = []

    def work(worker: int) -> None:
        for number in range(30):
            text = f"content {number % 10} " * 3
            digest = store.put(text)
            if store.get_text(digest) not in (text, None):
                failures.append(f"{worker}: {text}")

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert store.stats().total_bytes <= 500


def test_sqlite_store_outlives_its_process_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    digest = store.put("kept")
    store.close()
    assert SQLiteStore(path).get_text(digest) == "kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sqlite_store_clear_leaves_no_bytes_behind(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    store.put("hunter2" * 1000)
    store.clear()
    store.close()
    assert b"hunter2" not in path.read_bytes()


def test_sqlite_store_never_raises_once_open(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    digest = store.put("x")
    store.close()
    assert store.put("y") == content_hash("y")
    assert store.get(digest) is None
    assert digest not in store


def test_sqlite_store_refuses_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100)
    for path in (tmp_path, tmp_path / "missing" / "store.db", tmp_path / "text"):
        with pytest.raises(ConfigurationError, match="path="):
            SQLiteStore(path)
