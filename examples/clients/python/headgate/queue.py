"""What waits in a batcher: items, and the batches that are cut of them.

Not locked: the batcher that owns it holds its lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, List, Optional

from .spool import Kept


@dataclass
class Entry:
    """An item that waits."""

    item: Any
    data: bytes
    #: What identifies it, where only the latest of it goes.
    key: Optional[str]
    #: Its place among all that were ever added.
    place: int
    #: When it was added, by the monotonic clock.
    added: float


@dataclass
class Batch:
    """What goes as one request, under one idempotency key for all its attempts."""

    items: List[Any]
    #: The body of each item; none: the batch comes from the spool, and is cut when that is needed.
    parts: Optional[List[bytes]]
    body: bytes
    item_key: Optional[str]
    idempotency_key: str
    #: The places of the first and the last item among all that were ever added.
    first: int
    added: float
    #: When its key was first used, by the client's clock; none: not yet.
    born: Optional[float] = None
    #: Its file.
    path: Optional[str] = None


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
    return Batch(kept.items, None, kept.body, kept.item_key, kept.idempotency_key, -1, added, born, kept.path)
