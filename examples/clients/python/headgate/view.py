"""A stream's items as a mapping that stays current."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set

from .errors import HeadgateError
from .transport import Cancel
from .wire import Item, item_of

_LOG = logging.getLogger("headgate")


class Shown(Mapping[str, Item]):
    """What :class:`View` and :class:`AsyncView` have: items by key, read like a dict, kept current by a thread.

    After a lost connection, until a new snapshot is complete, it keeps its items and is ``stale``.
    """

    def __init__(
        self,
        stream: str,
        messages: Iterator[Optional[Dict[str, Any]]],
        cancel: Cancel,
        on_change: Optional[Callable[[List[Item], List[str]], object]],
    ) -> None:
        self.stream = stream
        self._cancel = cancel
        self._on_change = on_change
        self._lock = threading.Condition()
        self._items: Dict[str, Item] = {}
        #: Keys of the snapshot that is arriving.
        self._seen: Optional[Set[str]] = None
        self._complete = self._late = self._synced = False
        self._resumable = False
        self._error: Optional[HeadgateError] = None
        self._thread = threading.Thread(target=self._run, args=(messages,), name="headgate-view", daemon=True)
        self._thread.start()

    def __getitem__(self, key: str) -> Item:
        with self._lock:
            return self._items[key]

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._items))

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)

    def __repr__(self) -> str:
        return f"<headgate.{type(self).__name__} {self.stream!r}, {len(self)} items{', stale' if self.stale else ''}>"

    def snapshot(self) -> Dict[str, Item]:
        """All items of one moment."""
        with self._lock:
            return dict(self._items)

    @property
    def complete(self) -> bool:
        """Whether all items of the stream are known."""
        with self._lock:
            return self._complete

    @property
    def stale(self) -> bool:
        """Whether the items may be old: the connection is lost, or the stream's source went quiet."""
        with self._lock:
            return self._late or not self._synced

    @property
    def error(self) -> Optional[HeadgateError]:
        """The error that ended it: the key or the stream was rejected."""
        with self._lock:
            return self._error

    def _wait(self, timeout: float, cancel: Optional[Cancel]) -> bool:
        deadline = time.monotonic() + timeout
        with self._lock:
            while not self._complete and self._error is None and not self._cancel.canceled:
                left = deadline - time.monotonic()
                if left <= 0 or (cancel is not None and cancel.canceled):
                    break
                self._lock.wait(left)
            if self._error is not None:
                raise self._error
            return self._complete

    def _wake(self) -> None:
        """For those who wait, and were canceled."""
        with self._lock:
            self._lock.notify_all()

    def _close(self) -> None:
        self._cancel.cancel()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    def _run(self, messages: Iterator[Optional[Dict[str, Any]]]) -> None:
        try:
            for message in messages:
                if message is None:
                    self._cut_off()
                elif message.get("stream", self.stream) == self.stream:
                    self._apply(message)
        except HeadgateError as error:
            _LOG.warning("the view of %s has ended: %s", self.stream, error)
            with self._lock:
                self._error = error
        finally:
            self._cut_off()

    def _cut_off(self) -> None:
        with self._lock:
            if self._seen is not None:
                # A snapshot that broke off counts for nothing, unless the position says that what was there holds.
                self._complete = self._resumable
            self._seen = None
            self._synced = False
            self._lock.notify_all()

    def _apply(self, message: Dict[str, Any]) -> None:
        kind = message["type"]
        items = [item for item in map(item_of, message.get("items") or ()) if item is not None]
        with self._lock:
            if kind == "reset":
                self._complete = self._synced = False
                self._seen = None
            elif kind == "heartbeat":
                self._synced = self._complete
            elif kind in ("snapshot", "update", "stale", "fresh"):
                self._late = kind == "stale"
            removed = [key for key in message.get("keys") or () if self._items.pop(key, None)] if kind == "remove" else []
            if kind in ("snapshot", "update"):
                removed = self._put(items, kind == "snapshot", message.get("complete") is True)
            identity = message.get("id")
            if isinstance(identity, str):
                self._resumable = not identity.endswith(":0")
            self._lock.notify_all()
        if (items or removed) and self._on_change is not None:
            try:
                self._on_change(items, removed)
            except Exception:
                _LOG.exception("a callback of the view raised an error")

    def _put(self, items: List[Item], snapshot: bool, complete: bool) -> List[str]:
        """Takes items in; the keys that a snapshot, at its end, has shown to be gone."""
        if snapshot and self._seen is None:
            self._seen = set()
            self._complete = False
        for item in items:
            if self._seen is not None and item.key not in self._seen:
                self._items.pop(item.key, None)  # takes the order of the snapshot
                self._seen.add(item.key)
            self._items[item.key] = item
        if not complete or self._seen is None:
            return []
        removed = [key for key in self._items if key not in self._seen]
        for key in removed:
            del self._items[key]
        self._seen = None
        self._complete = self._synced = True
        return removed


class View(Shown):
    """Made by :meth:`Reader.view`: items by key, read like a dict, kept current by a thread.

    After a lost connection, until a new snapshot is complete, it keeps its items and is ``stale``.
    ``on_change`` is called with new items and removed keys. Close it, or use ``with``.
    """

    def wait(self, timeout: float = 30.0) -> bool:
        """Waits until the view is complete; returns whether it is. Raises the error that ended it."""
        return self._wait(timeout, None)

    def close(self) -> None:
        """Ends the view, which keeps its items."""
        self._close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
