"""What waits in a batcher: items, and the batches that are cut of them.

Not locked: the batcher that owns it holds its lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, Iterable, List, Optional, Tuple

from .encoding import encode

#: What is left of a batch that was cut has room in a file of 4 KiB.
_CUTS_MAX = 100


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


class Batch:
    """What goes as one request, under one idempotency key for all its attempts: in memory, on disk, or both."""

    __slots__ = ("key", "first", "added", "count", "size", "content", "written", "writing")

    def __init__(self, key: str, first: int, added: float, count: int, size: int, content: Optional[Content]) -> None:
        self.key = key
        #: The place of its first item among all that were ever added; -1: an earlier life has left it.
        self.first = first
        #: When that was added, by the client's clock.
        self.added = added
        #: How many items it has; 0: it was not read yet.
        self.count = count
        #: Bytes of the file, or of the body that has none yet.
        self.size = size
        #: None: it is on disk only.
        self.content = content
        self.written = content is None
        self.writing = False


@dataclass
class Content:
    """The items of a batch."""

    items: List[Any]
    #: The body of each item; none: the batch comes from the spool, and is cut when that is needed.
    parts: Optional[List[bytes]]
    body: bytes
    item_key: Optional[str]
    stream: Optional[str]

    def slice(self, start: int, count: int) -> bytes:
        """The body of some of its items."""
        if start == 0 and count == len(self.items):
            return self.body
        if self.parts is None:
            self.parts = [encode(item) for item in self.items]
        return body_of(self.parts[start : start + count])


def cuts(start: int, count: int, named: Iterable[int]) -> List[Tuple[int, int]]:
    """The parts of a part that was refused: the named items (counted in it) stand alone, else it is halved."""
    places = {place for index in named for place in (index, index + 1)} - {0, count}
    ends = [0, *(sorted(places)[:_CUTS_MAX] or [count // 2]), count]
    return [(start + begin, end - begin) for begin, end in zip(ends, ends[1:])]


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
