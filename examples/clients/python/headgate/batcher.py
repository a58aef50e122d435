"""The batcher: items one at a time, sent in batches by a thread in the background, one request at a time.

With a spool a second thread cuts batches and writes them, also while a request is on its way: they are sent once
their files are there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Union

from . import spool as spools
from .caller import canceled
from .encoding import encode, is_object, key_of
from .errors import HeadgateError, closed, invalid
from .queue import Batch, Entry, File, Queue, body_of, spooled
from .transport import Cancel
from .wire import FlushResult, Receipt, Stats, submission

if TYPE_CHECKING:
    from .client import Client

_LOG = logging.getLogger("headgate")
ITEM_BYTES_MAX = 1_048_574
AGE_MAX = 23 * 3600.0
_EXIT_SECONDS = 5.0
_open: "weakref.WeakSet[Batcher]" = weakref.WeakSet()


class Batcher:
    """Made by :meth:`Client.batcher`. Safe to share between threads.

    **What it holds is in memory: a crash loses it, unless there is a spool.** What waits when the program ends
    normally is flushed for at most 5 seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        item_key: Optional[str],
        max_items: int,
        max_bytes: int,
        linger: float,
        queue_bytes: int,
        when_full: str,
        latest_only: bool,
        on_accepted: Optional[Callable[[Receipt, List[Any]], object]],
        on_rejected: Optional[Callable[[List[Any], HeadgateError], object]],
        on_retry: Optional[Callable[[HeadgateError, float], object]],
        spool: Union[str, "os.PathLike[str]", None],
    ) -> None:
        if max_items < 1 or max_bytes < 2 or linger < 0 or queue_bytes < 1:
            raise ValueError("max_items, max_bytes and queue_bytes must be positive, linger not negative")
        if when_full not in ("wait", "fail", "drop_oldest"):
            raise ValueError('when_full is "wait", "fail" or "drop_oldest"')
        submission(item_key, "checks-the-item-key")
        self._client, self._item_key = client, item_key
        self._max_items, self._max_bytes, self._linger = max_items, max_bytes, linger
        self._queue_bytes, self._when_full, self._latest_only = queue_bytes, when_full, latest_only
        self._on_accepted, self._on_rejected, self._on_retry = on_accepted, on_rejected, on_retry
        self._spool = None if spool is None else spools.Spool(os.fspath(spool))
        self._accepted = self._rejected = self._dropped = self._replaced = self._retries = 0
        self._begin()
        if self._spool is not None:
            now = time.monotonic()
            for kept in self._spool.left():
                age = max(time.time() - kept.created_ms / 1000, 0.0)
                self._pending.append(spooled(kept, client._clock() - age, now))
            if self._pending:
                with self._lock:
                    self._start()
        _open.add(self)

    def _begin(self) -> None:
        self._lock = threading.Condition()
        self._queue = Queue()
        self._pending: Deque[Batch] = deque()
        self._current: List[Batch] = []
        #: What the spool is written from.
        self._writing: Optional[Batch] = None
        self._places = 0
        self._flush_to = -1
        self._closing = self._stopped = self._failing = False
        self._eager_to = -1
        self._cancel = Cancel()
        self._threads: Dict[str, threading.Thread] = {}

    def __repr__(self) -> str:
        stats = self.stats
        return f"<headgate.Batcher {stats.queued} queued, {stats.in_flight} in flight>"

    def add(self, item: Any) -> None:
        """Puts an item into the queue. One that cannot be sent fails here."""
        self._add(item, None, True)

    def _add(self, item: Any, cancel: Optional[Cancel], may_wait: bool) -> bool:
        """Whether it was put there; it is not if it would have to wait, and may not."""
        entry = self._entry(item)
        dropped: List[Any] = []
        with self._lock:
            while True:
                if self._closing:
                    raise closed()
                if cancel is not None and cancel.canceled:
                    raise canceled()
                if self._latest_only and self._queue.replace(entry):
                    self._replaced += 1
                    return True
                waiting = self._waiting_bytes()
                if not waiting or waiting + len(entry.data) <= self._queue_bytes:
                    break
                if self._when_full == "drop_oldest" and self._queue.first is not None:
                    dropped.append(self._queue.pop().item)
                    self._dropped += 1
                    self._rejected += 1
                elif self._when_full != "wait" or threading.current_thread() in self._threads.values():
                    raise HeadgateError("FULL", "the queue is full", retryable=True)
                elif not may_wait:
                    return False
                else:
                    self._start()
                    self._lock.wait()
            filled = self._queue.fills(self._max_items, self._max_bytes)
            entry.place = self._places
            self._places += 1
            self._queue.push(entry)
            if len(self._queue) == 1 or not filled and self._queue.fills(self._max_items, self._max_bytes):
                # Others change nothing for those who wait, and waking them for each costs more than all the rest.
                self._start()
                self._lock.notify_all()
        for old in dropped:
            self._tell(self._on_rejected, [old], HeadgateError("DROPPED", "the queue was full, and this was the oldest"))
        return True

    def _wake(self) -> None:
        """For those who wait, and were canceled."""
        with self._lock:
            self._lock.notify_all()

    def flush(self, timeout: float = 30.0) -> FlushResult:
        """Everything added before is accepted or rejected, or the time is over: it says which."""
        return self._flush(timeout, None)

    def _flush(self, timeout: float, cancel: Optional[Cancel]) -> FlushResult:
        deadline = time.monotonic() + timeout
        with self._lock:
            target = self._places - 1
            self._flush_to = max(self._flush_to, target)
            self._lock.notify_all()
            if threading.current_thread() not in self._threads.values():
                while self._oldest_place() <= target and not self._stopped:
                    left = deadline - time.monotonic()
                    if left <= 0 or (cancel is not None and cancel.canceled):
                        break
                    self._lock.wait(left)
            done = self._oldest_place() > target
            return FlushResult(done, self._queued(), self._flying())

    def close(self, timeout: float = 30.0) -> FlushResult:
        """Flushes and stops. What is left is rejected with ``CLOSED``; with a spool it stays in its files."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        result = self.flush(timeout)
        left: List[List[Any]] = []
        with self._lock:
            if not self._stopped:
                self._stopped = True
                left = self._abandon()
                self._cancel.cancel()
            self._lock.notify_all()
            writer = self._threads.get("spool")
        for items in left:
            self._give_up(items)
        if writer is not None and writer is not threading.current_thread():
            writer.join(_EXIT_SECONDS)
        if self._spool is not None:
            self._spool.close()
        _open.discard(self)
        self._client._forget(self)
        return result

    def _abandon(self) -> List[List[Any]]:
        """Takes what is left, in order; what is on disk is no loss, and what waits for the disk is its thread's."""
        left = [batch.items for batch in [*self._current, *self._pending] if batch.file is None]
        self._current, self._pending = [], deque()
        if self._spool is None and len(self._queue):
            left.append([self._queue.pop().item for _ in range(len(self._queue))])
        return left

    def _give_up(self, items: List[Any]) -> None:
        with self._lock:
            self._rejected += len(items)
        _LOG.warning("closed with %d items that were not accepted", len(items))
        self._tell(self._on_rejected, items, HeadgateError("CLOSED", "not accepted when closed", retryable=True))

    @property
    def stats(self) -> Stats:
        """Counts, and how long the oldest item has waited."""
        with self._lock:
            times = [batch.added for batch in (*self._current, *self._waiting())]
            if self._queue.first is not None:
                times.append(self._queue.first.added)
            oldest = time.monotonic() - min(times) if times else 0.0
            return Stats(self._queued(), self._flying(), self._accepted, self._rejected, self._dropped,
                         self._replaced, self._retries, oldest)

    def __enter__(self) -> Batcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, item: Any) -> Entry:
        if not is_object(item):
            raise invalid(f"an item is an object, not of the type {type(item).__name__}")
        data = encode(item)
        key = None if self._item_key is None else key_of(item, self._item_key)
        if len(data) > ITEM_BYTES_MAX:
            raise HeadgateError("TOO_LARGE", f"the item {key or ''} has {len(data)} bytes, of {ITEM_BYTES_MAX} that may be")
        kept = None if self._on_accepted is None and self._on_rejected is None else item
        return Entry(kept, data, key if self._latest_only else None, 0, time.monotonic())

    def _waiting(self) -> List[Batch]:
        return [*self._pending, *([] if self._writing is None else [self._writing])]

    def _waiting_bytes(self) -> int:
        if not self._pending and self._writing is None:
            return self._queue.bytes
        return self._queue.bytes + sum(len(batch.body) for batch in self._waiting())

    def _queued(self) -> int:
        return len(self._queue) + sum(len(batch.items) for batch in self._waiting())

    def _flying(self) -> int:
        return sum(len(batch.items) for batch in self._current)

    def _oldest_place(self) -> float:
        for batch in (*self._current, *self._waiting()):
            return batch.first
        first = self._queue.first
        return float("inf") if first is None else first.place

    def _start(self) -> None:
        jobs = {"batcher": self._run} if self._spool is None else {"batcher": self._run, "spool": self._run_spool}
        for name, job in jobs.items():
            thread = self._threads.get(name)
            if thread is None or not thread.is_alive():
                self._threads[name] = threading.Thread(target=job, name="headgate-" + name, daemon=True)
                self._threads[name].start()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and not self._current and not self._pending:
                    if self._spool is None and self._cut_due():
                        self._pending.append(self._cut())
                        break
                    self._lock.wait(None if self._spool is not None else self._until_due())
                if self._stopped:
                    return
                self._current = self._current or [self._pending.popleft()]
                self._lock.notify_all()
            while self._current and not self._stopped:
                try:
                    self._deliver(self._current[0])
                except Exception:
                    _LOG.exception("a batch could not be sent, and is tried again")
                    self._sleep(1.0)

    def _run_spool(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and not self._cut_due():
                    self._lock.wait(self._until_due())
                if self._queue.first is None:
                    return
                self._writing = self._cut()
            self._write(self._writing)

    def _write(self, batch: Batch) -> None:
        """Puts a batch on disk, however long the disk does not take it; then it may be sent."""
        attempt = 0
        while True:
            try:
                assert self._spool is not None
                path = self._spool.write(batch.idempotency_key, batch.item_key, batch.body)
            except OSError as why:
                error = HeadgateError("SPOOL", f"a batch cannot be written to the spool: {why}", retryable=True)
            else:
                with self._lock:
                    batch.file, self._writing = File(path), None
                    if not self._stopped:
                        self._pending.append(batch)
                    self._lock.notify_all()
                return
            if self._stopped:
                with self._lock:
                    self._writing = None
                return self._give_up(batch.items)
            pause = self._client.pause(error, attempt)
            if attempt == 0:
                _LOG.warning("%s; it is tried again", error)
            self._tell(self._on_retry, error, pause)
            self._sleep(pause)
            attempt += 1

    def _until_due(self) -> Optional[float]:
        first = self._queue.first
        return None if first is None else max(first.added + self._linger - time.monotonic(), 0.0)

    def _cut_due(self) -> bool:
        """Whether the next batch is to be cut."""
        first = self._queue.first
        return first is not None and (
            first.place <= max(self._flush_to, self._eager_to)
            or time.monotonic() >= first.added + self._linger
            or self._queue.fills(self._max_items, self._max_bytes)
        )

    def _cut(self) -> Batch:
        entries = self._queue.take(self._max_items, self._max_bytes)
        parts = [entry.data for entry in entries]
        return Batch([entry.item for entry in entries], parts, body_of(parts), self._item_key, spools.uuid7(),
                     entries[0].place, entries[0].added)

    def _deliver(self, batch: Batch) -> None:
        headers = submission(batch.item_key, batch.idempotency_key)
        attempt = 0
        while True:
            now = self._client._clock()
            batch.born = now if batch.born is None else batch.born
            if now - batch.born > AGE_MAX:
                return self._settle(batch, HeadgateError("EXPIRED", "older than 23 hours, when repeats are forgotten"))
            try:
                receipt = self._client.attempt(headers, batch.body, self._cancel)
                return self._settle(batch, receipt)
            except HeadgateError as error:
                if not error.retryable:
                    return self._refused(batch, error)
                with self._lock:
                    if self._stopped:
                        return
                    self._retries += 1
                pause = self._client.pause(error, attempt)
                if not self._failing:
                    self._failing = True
                    _LOG.warning("a batch was not accepted, and is tried again: %s", error)
                self._tell(self._on_retry, error, pause)
                self._sleep(pause)
                if self._stopped:
                    return
                attempt += 1

    def _sleep(self, pause: float) -> None:
        end = time.monotonic() + pause
        with self._lock:
            while not self._stopped and time.monotonic() < end:
                self._lock.wait(max(end - time.monotonic(), 0.001))

    def _refused(self, batch: Batch, error: HeadgateError) -> None:
        parts = batch.cut(error) if error.status in (400, 413) else []
        if not parts:
            return self._settle(batch, error)
        with self._lock:
            if not self._stopped:
                self._current[:1] = parts

    def _settle(self, batch: Batch, outcome: Union[Receipt, HeadgateError]) -> None:
        with self._lock:
            if self._stopped:
                return
            if isinstance(outcome, Receipt):
                self._accepted += len(batch.items)
            else:
                self._rejected += len(batch.items)
        if isinstance(outcome, Receipt):
            if self._failing:
                self._failing = False
                _LOG.warning("batches are accepted again")
            self._tell(self._on_accepted, outcome, batch.items)
        else:
            _LOG.warning("%d items were not accepted: %s", len(batch.items), outcome)
            self._tell(self._on_rejected, batch.items, outcome)
        if self._spool is not None and batch.file is not None:
            batch.file.parts -= 1
            if not batch.file.parts:
                self._spool.delete(batch.file.path)
        with self._lock:
            self._current = self._current[1:]
            if self._spool is None:
                self._eager_to = self._places - 1
            self._lock.notify_all()

    def _tell(self, callback: Optional[Callable[..., object]], *told: object) -> None:
        if callback is not None:
            try:
                callback(*told)
            except Exception:
                _LOG.exception("a callback of the batcher failed")


def _at_exit() -> None:
    deadline = time.monotonic() + _EXIT_SECONDS
    for batcher in list(_open):
        batcher.flush(0)
    for batcher in list(_open):
        batcher.close(max(deadline - time.monotonic(), 0.0))


def _after_fork() -> None:
    spools.renew()
    for batcher in list(_open):
        batcher._begin()
        batcher._client._transport.renew()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
