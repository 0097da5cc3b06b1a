"""The bookkeeping of the drafter's pool."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vllm_asymspec.pool import BlockPool, block_hashes
from vllm_asymspec.wire_args import pack_ids

NUM_BLOCKS = 9


class PoolMachine(RuleBasedStateMachine):
    """Views take, share, name and give back blocks; a plain model says who has what."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(NUM_BLOCKS)
        self.views: list[list[int]] = []
        self.content: dict[bytes, int] = {}  # the block that was published under a name
        self.fresh = itertools.count()

    def users(self) -> list[int]:
        return [sum(block in view for view in self.views) for block in range(NUM_BLOCKS)]

    @rule(num=st.integers(0, NUM_BLOCKS + 1))
    def take(self, num: int) -> None:
        users = self.users()
        taken = self.pool.take(num)
        if taken is None:
            assert num > users[1:].count(0)
            return
        assert len(set(taken)) == num
        assert all(block and users[block] == 0 for block in taken)
        self.content = {name: block for name, block in self.content.items() if block not in taken}
        self.views.append(taken)

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        view = data.draw(st.sampled_from(self.views))
        if view:
            block = data.draw(st.sampled_from(view))
            name = b"%d" % data.draw(st.integers(0, 5))
            if block not in self.content.values():
                self.content.setdefault(name, block)
            self.pool.publish(block, name)

    @rule(names=st.lists(st.integers(0, 5), unique=True))
    def share(self, names: list[int]) -> None:
        wanted = [b"%d" % name for name in names]
        found = self.pool.find(wanted)
        assert found == [self.content[name] for name in wanted[: len(found)]]
        assert len(found) == len(wanted) or wanted[len(found)] not in self.content
        self.pool.share(found)
        self.views.append(found)

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.pool.give_back(self.views.pop(data.draw(st.integers(0, len(self.views) - 1))))

    @rule()
    def forget_names(self) -> None:
        self.pool.forget_names()
        self.content.clear()

    @invariant()
    def counts_agree(self) -> None:
        users = self.users()
        assert [self.pool.num_users(block) for block in range(NUM_BLOCKS)] == users
        assert self.pool.num_free == users[1:].count(0)
        assert self.pool.num_used == NUM_BLOCKS - 1 - self.pool.num_free
        assert self.pool.num_cached == len(self.content)


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_named_free_blocks_are_reused_last_and_the_longest_unused_first() -> None:
    pool = BlockPool(8)
    first, second = pool.take(3), pool.take(2)
    assert first is not None
    assert second is not None
    for number, block in enumerate([*first, *second]):
        pool.publish(block, b"%d" % number)
    pool.give_back(first)
    pool.give_back(second)
    unnamed = pool.take(2)
    assert unnamed is not None
    assert not {*unnamed} & {*first, *second}
    # Of a view its last block goes first, so that what remains is a prefix.
    assert [pool.take(1) for _ in range(5)] == [[b] for b in (*reversed(first), *reversed(second))]
    assert pool.take(1) is None


def test_sharing_keeps_a_block_from_being_reused() -> None:
    pool = BlockPool(3)
    (block,) = pool.take(1) or [0]
    pool.publish(block, b"name")
    pool.give_back([block])
    pool.share(pool.find([b"name"]))
    assert pool.take(2) is None
    assert pool.take(1) != [block]


@given(
    ids=st.lists(st.integers(0, 7), max_size=40),
    other=st.lists(st.integers(0, 7), max_size=40),
    size=st.integers(1, 6),
)
def test_names_agree_exactly_as_far_as_the_tokens_do(ids: list[int], other: list[int], size: int) -> None:
    names, others = (list(block_hashes(pack_ids(tokens), size, "s")) for tokens in (ids, other))
    assert len(names) == len(ids) // size
    for index, (mine, theirs) in enumerate(zip(names, others, strict=False)):
        stop = (index + 1) * size
        assert (mine == theirs) == (ids[:stop] == other[:stop])


@pytest.mark.parametrize("salt", ["", "none", "saltnone", "a", "\ud800"])
def test_another_salt_gives_other_names(salt: str) -> None:
    ids = pack_ids(range(8))
    assert not {*block_hashes(ids, 4, salt)} & {*block_hashes(ids, 4, None)}
    assert not {*block_hashes(ids, 4, salt)} & {*block_hashes(ids, 4, salt + "x")}
