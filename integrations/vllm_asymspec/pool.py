"""The blocks of the drafter's keys and values: who has which, and which free ones still hold a known prefix.

A full block of a prompt gets a name, the hash of all tokens up to its end, of the images they stand for, and
of the salt. A request whose view begins with the same takes the named blocks instead of computing them. Free
blocks keep their names until they are needed for something else, the least recently used first. Both views of
a request, and all requests of one salt, share blocks; a named block is never written again.

Pure bookkeeping: the tensors are the worker's.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from .images import Span

__all__ = ["BlockPool", "block_hashes"]

BYTES_PER_ID = 4


def block_hashes(
    ids: bytes, block_size: int, salt: str | None, images: Sequence[Span] = ()
) -> Iterator[bytes]:
    """The names of the full blocks of int32 ids, in order; each depends on every token before its end.

    The tokens that stand for an image are the same for all of them, so its content is part of the name.
    """
    previous = hashlib.sha256(b"none" if salt is None else b"salt" + salt.encode("utf-8", "surrogatepass"))
    step = block_size * BYTES_PER_ID
    for start in range(0, len(ids) - step + 1, step):
        name = hashlib.sha256(previous.digest())
        name.update(ids[start : start + step])
        first, last = start // BYTES_PER_ID, start // BYTES_PER_ID + block_size
        for image in images:
            if image.start < last and first < image.stop:
                name.update(image.key(first))
        previous = name
        yield name.digest()


class BlockPool:
    """Blocks 1 to num_blocks-1 with their reference counts, names and order of use."""

    def __init__(self, num_blocks: int) -> None:
        self._num_users = [0] * num_blocks
        self._name_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        # Free blocks in the order in which they are taken: those without a name first.
        self._unnamed = list(range(num_blocks - 1, 0, -1))
        self._named: OrderedDict[int, None] = OrderedDict()

    @property
    def num_free(self) -> int:
        """Blocks nobody uses, those with a name included."""
        return len(self._unnamed) + len(self._named)

    @property
    def num_used(self) -> int:
        """Blocks in the table of at least one view."""
        return len(self._num_users) - 1 - self.num_free

    @property
    def num_cached(self) -> int:
        """Blocks with a name, used or free."""
        return len(self._block_of)

    def num_users(self, block: int) -> int:
        """How many tables have the block."""
        return self._num_users[block]

    def find(self, names: Iterable[bytes]) -> list[int]:
        """The blocks of the longest known prefix of `names`; nobody holds them until `share` takes them."""
        found = []
        for name in names:
            block = self._block_of.get(name)
            if block is None:
                break
            found.append(block)
        return found

    def num_free_of(self, blocks: Sequence[int]) -> int:
        """How many of them are free now: sharing those takes them from the free ones."""
        return sum(self._num_users[block] == 0 for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """Takes blocks that `find` found, once more each."""
        for block in blocks:
            if self._num_users[block] == 0:
                del self._named[block]
            self._num_users[block] += 1

    def take(self, num: int) -> list[int] | None:
        """New blocks to write, or None when fewer are free; the named ones among them lose their names."""
        if num > self.num_free:
            return None
        taken = []
        for _ in range(num):
            if self._unnamed:
                block = self._unnamed.pop()
            else:
                block, _ = self._named.popitem(last=False)
                self._forget(block)
            self._num_users[block] = 1
            taken.append(block)
        return taken

    def give_back(self, blocks: Sequence[int]) -> None:
        """Ends one use of each block. A view's blocks come in its order: its last ones are reused first."""
        for block in reversed(blocks):
            self._num_users[block] -= 1
            if self._num_users[block] == 0:
                if self._name_of[block] is None:
                    self._unnamed.append(block)
                else:
                    self._named[block] = None

    def publish(self, block: int, name: bytes) -> None:
        """Names a used block whose keys and values are computed, unless another block has that name."""
        if self._name_of[block] is None and name not in self._block_of:
            self._name_of[block] = name
            self._block_of[name] = block

    def forget_names(self) -> None:
        """No block is found any more; used blocks stay with their users."""
        for block in list(self._block_of.values()):
            self._forget(block)
        self._unnamed.extend(self._named)
        self._named.clear()

    def _forget(self, block: int) -> None:
        name = self._name_of[block]
        if name is not None:
            self._name_of[block] = None
            del self._block_of[name]
