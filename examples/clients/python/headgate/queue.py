"""What waits in a batcher: items, and the batches that are cut of them.

Not locked: the batcher that owns it holds its lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, List, Optional

from .encoding import encode
from .errors import HeadgateError
from .spool import Kept


@dataclass
class Entry:
    """An item that waits."""

    __slots__ = ("item", "data", "key", "place", "added")  # there may be hundreds of thousands
    #: None, if nobody will ask for it.
    item: Any
    data: bytes
    #: What identifies it, where only the latest of it goes.
    key: Optional[str]
    #: Its place among all that were ever added.
    place: int
    #: When it was added, by the monotonic clock.
    added: float


@dataclass
class File:
    """A batch on disk. It stays until every part of the batch is settled."""

    path: str
    parts: int = 1


@dataclass
class Batch:
    """What goes as one request, under one idempotency key for all its attempts."""

    items: List[Any]
    #: The body of each item; none: the batch comes from the spool, and is cut when that is needed.
    parts: Optional[List[bytes]]
    body: bytes
    item_key: Optional[str]
    idempotency_key: str
    #: The place of the first item among all that were ever added.
    first: int
    added: float
    #: When its key was first used, by the client's clock; none: not yet.
    born: Optional[float] = None
    #: Where it is on disk.
    file: Optional[File] = None
    #: What it is a part of: the key of that batch, and the index of its own first item there.
    whole: str = field(default="")
    offset: int = 0

    def cut(self, error: HeadgateError) -> List[Batch]:
        """The parts of a batch that was refused; none, if it is no more than one item.

        A part has the same key whenever it is cut out of the same batch: one that was accepted before a crash is
        known when the batch comes from its file again.
        """
        cuts = _cuts(len(self.items), error)
        if not cuts:
            return []
        bodies = self.parts if self.parts is not None else [encode(item) for item in self.items]
        whole = self.whole or self.idempotency_key
        places = [0, *cuts, len(self.items)]
        parts = []
        for start, end in zip(places, places[1:]):
            offset = self.offset + start
            key = f"{whole}/{offset}/{end - start}"
            parts.append(Batch(self.items[start:end], bodies[start:end], body_of(bodies[start:end]), self.item_key, key,
                               self.first, self.added, self.born, self.file, whole, offset))
        if self.file is not None:
            self.file.parts += len(parts) - 1
        return parts


def _cuts(count: int, error: HeadgateError) -> List[int]:
    """Where a refused batch is cut: around the items that the answer names, else in the middle."""
    if count < 2:
        return []
    named = {each["item"] for each in error.details if isinstance(each.get("item"), int) and 0 <= each["item"] < count}
    cuts = {place for index in named for place in (index, index + 1)} - {0, count}
    return sorted(cuts) or [count // 2]


def body_of(parts: List[bytes]) -> bytes:
    """A list of items as JSON."""
    return b"[" + b",".join(parts) + b"]"


class Queue:
    """Items in order, and how many bytes they are."""

    def __init__(self) -> None:
        self._entries: Deque[Entry] = deque()
        self._by_key: Dict[str, Entry] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def first(self) -> Optional[Entry]:
        """The oldest."""
        return self._entries[0] if self._entries else None

    def replace(self, entry: Entry) -> bool:
        """Puts an item in the place of the one with the same key, if one waits."""
        old = None if entry.key is None else self._by_key.get(entry.key)
        if old is None:
            return False
        self.bytes += len(entry.data) - len(old.data)
        old.item, old.data = entry.item, entry.data
        return True

    def push(self, entry: Entry) -> None:
        """Adds one at the end."""
        self._entries.append(entry)
        self.bytes += len(entry.data)
        if entry.key is not None:
            self._by_key[entry.key] = entry

    def pop(self) -> Entry:
        """Takes the oldest."""
        entry = self._entries.popleft()
        self.bytes -= len(entry.data)
        if entry.key is not None:
            del self._by_key[entry.key]
        return entry

    def fills(self, max_items: int, max_bytes: int) -> bool:
        """Whether a whole batch waits."""
        count = len(self._entries)
        return count >= max_items or self.bytes + count + 1 >= max_bytes

    def take(self, max_items: int, max_bytes: int) -> List[Entry]:
        """The items of the next batch; one at least, however long it is."""
        taken: List[Entry] = []
        size = 1
        while self._entries and len(taken) < max_items:
            size += len(self._entries[0].data) + 1
            if taken and size > max_bytes:
                break
            taken.append(self.pop())
        return taken


def spooled(kept: Kept, born: float, added: float) -> Batch:
    """A batch that an earlier life has left."""
    return Batch(kept.items, None, kept.body, kept.item_key, kept.idempotency_key, -1, added, born, File(kept.path))
