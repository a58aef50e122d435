"""The batcher: items one at a time, sent in batches by a thread in the background, one request at a time.

With a spool a second thread cuts batches and writes them, also while a request is on its way: they are sent once
their files are there. What the threads do, and when, is in pairs of methods (``…_due`` and ``…_turn``).
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from . import uuids
from .caller import canceled
from .delivery import Callbacks, Delivery
from .encoding import encode, is_object, key_of
from .errors import HeadgateError, closed, invalid
from .queue import Batch, Content, Entry, Queue, body_of
from .spool import Spool
from .transport import Cancel
from .verdict import Receipt
from .wire import FlushResult, Stats, submission

if TYPE_CHECKING:
    from .client import Client

_LOG = logging.getLogger("headgate")
ITEM_BYTES_MAX = 1_048_574
_EXIT_SECONDS = 5.0
#: While older batches wait for the connection, so long at least: or an outage makes millions of small files.
_LINGER_BEHIND = 1.0
_WRITE_AGAIN = 1.0
_LOOK_SECONDS = 10.0
_NEVER = float("inf")
_open: "weakref.WeakSet[Batcher]" = weakref.WeakSet()


class Batcher:
    """Made by :meth:`Client.batcher`. Safe to share between threads.

    **Items are in memory: a crash loses them, unless there is a spool.** What waits when the program ends
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
        on_state: Optional[Callable[[str, Optional[str]], object]],
        spool: Union[str, "os.PathLike[str]", None],
        spool_bytes: int,
    ) -> None:
        if max_items < 1 or max_bytes < 2 or linger < 0 or queue_bytes < 1 or spool_bytes < 1:
            raise ValueError("max_items, max_bytes, queue_bytes and spool_bytes must be positive, and linger must not be negative")
        if when_full not in ("wait", "fail", "drop_oldest"):
            raise ValueError('when_full is "wait", "fail" or "drop_oldest"')
        if when_full == "drop_oldest" and spool is not None:
            raise ValueError('when_full="drop_oldest" is for a queue in memory: nothing is dropped from a spool')
        submission(item_key, "checks-the-item-key")
        self._client, self._item_key, self._clock = client, item_key, client._clock
        self._max_items, self._max_bytes, self._linger = max_items, max_bytes, linger
        self._queue_bytes, self._when_full, self._latest_only = queue_bytes, when_full, latest_only
        self._callbacks = Callbacks(on_accepted, on_rejected, on_state)
        self._spool = None if spool is None else Spool(os.fspath(spool), spool_bytes)
        self._spool_bytes = spool_bytes
        self._begin()
        if self._spool is not None:
            self._take_up(self._spool)
        _open.add(self)

    def _begin(self) -> None:
        self._lock = threading.Condition()
        self._queue = Queue()
        self._delivery = Delivery(self._client, self._lock, self._spool, self._callbacks, self._landed)
        self._dropped = self._replaced = self._places = 0
        self._flush_to = self._eager_to = -1
        self._closing = False
        #: Batches that the disk has not taken, and their bytes; when it is asked again.
        self._unwritten: List[Batch] = []
        self._unwritten_bytes = 0
        self._write_at = float("-inf")
        self._look_at = self._clock.mono() + _LOOK_SECONDS
        self._threads: Dict[str, threading.Thread] = {}

    def _take_up(self, spool: Spool) -> None:
        """The batches that an earlier life has left are first in line."""
        now = self._clock.mono()
        with self._lock:
            for key, size in spool.left:
                batch = Batch(key, -1, now, 0, size, None)
                self._delivery.line.append(batch)
                self._delivery.came(batch)
            spool.left = []
            if self._delivery.line:
                self._start()

    def __repr__(self) -> str:
        stats = self.stats
        return f"<headgate.Batcher {stats.queued} queued, {stats.in_flight} in flight>"

    def add(self, item: Any) -> None:
        """Adds an item to the queue. Fails if the item cannot be sent."""
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
                if not self._is_full(len(entry.data)):
                    break
                if self._when_full == "drop_oldest" and self._queue.first is not None:
                    dropped.append(self._queue.pop().item)
                    self._dropped += 1
                elif self._when_full != "wait" or threading.current_thread() in self._threads.values():
                    raise HeadgateError("FULL", "the queue is full", retryable=True)
                elif not may_wait:
                    return False
                else:
                    self._start()
                    self._lock.wait()
            self._push(entry)
        for old in dropped:
            self._delivery.give_up([old], HeadgateError("DROPPED", "the queue was full, so this item, the oldest, was dropped"))
        return True

    def _push(self, entry: Entry) -> None:
        filled = self._fills()
        entry.place = self._places
        self._places += 1
        self._queue.push(entry)
        if len(self._queue) == 1 or not filled and self._fills():
            # Others change nothing for those who wait, and waking them for each costs more than all the rest.
            self._start()
            self._lock.notify_all()

    def _is_full(self, length: int) -> bool:
        """Whether there is no room for an item of this length; one that is longer than all of it is let in alone."""
        waiting = self._queue.bytes + self._unwritten_bytes
        if waiting and waiting + length > self._queue_bytes:
            return True
        held = waiting + self._delivery.file_bytes
        return self._spool is not None and held > 0 and held + length > self._spool_bytes

    def _fills(self) -> bool:
        return self._queue.fills(self._max_items, self._bytes_max())

    def _bytes_max(self) -> int:
        through = self._delivery.bytes_max
        return self._max_bytes if through is None else min(self._max_bytes, through)

    def _wake(self) -> None:
        """For those who wait, and were canceled."""
        with self._lock:
            self._lock.notify_all()

    def flush(self, timeout: float = 30.0) -> FlushResult:
        """Waits until all items added before are accepted or rejected, or the time is over; returns which."""
        return self._flush(timeout, None)

    def _flush(self, timeout: float, cancel: Optional[Cancel]) -> FlushResult:
        deadline = time.monotonic() + timeout
        with self._lock:
            target = self._flush_all()
            if threading.current_thread() not in self._threads.values():
                while not self._flushed(target) and not self._delivery.stopped:
                    left = deadline - time.monotonic()
                    if left <= 0 or (cancel is not None and cancel.canceled):
                        break
                    self._lock.wait(left)
            return self._result(target)

    def _flush_all(self) -> int:
        """What waits goes without its linger; the place of the last of it."""
        self._flush_to = max(self._flush_to, self._places - 1)
        if self._delivery.line or self._delivery.hand is not None or len(self._queue):
            self._start()
        self._lock.notify_all()
        return self._places - 1

    def _flushed(self, target: int) -> bool:
        return self._oldest_place() > target

    def _result(self, target: int) -> FlushResult:
        delivery = self._delivery
        return FlushResult(self._flushed(target), self._queued(), self._flying(), delivery.spooled()[0],
                           delivery.state, delivery.code)

    def close(self, timeout: float = 30.0) -> FlushResult:
        """Flushes and stops. Unsent batches stay in the spool; items outside it are rejected with ``CLOSED``."""
        self._begin_close()
        result = self.flush(timeout)
        return self._end_close(result)

    def _begin_close(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()

    def _end_close(self, result: FlushResult) -> FlushResult:
        self._stop()
        for thread in list(self._threads.values()):
            if thread is not threading.current_thread():
                thread.join(_EXIT_SECONDS)
        return self._finish(result)

    def _stop(self) -> None:
        """What is in memory only is handed over, but what waits for the disk: its thread still writes it."""
        with self._lock:
            left = [] if self._delivery.stopped else self._delivery.stop()
            for batch in [batch for batch in self._unwritten if not batch.writing]:
                self._forget_unwritten(batch)
            while self._spool is None and self._queue.first is not None:
                left.append([entry.item for entry in self._queue.take(self._max_items, self._bytes_max())])
            self._lock.notify_all()
        for items in left:
            self._delivery.give_up(items, _not_accepted())

    def _finish(self, result: FlushResult) -> FlushResult:
        with self._lock:
            spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()
        _open.discard(self)
        self._client._forget(self)
        return dataclasses.replace(result, spooled=self._delivery.files)

    @property
    def stats(self) -> Stats:
        """Returns counters, and how long the oldest item has waited."""
        with self._lock:
            delivery, first = self._delivery, self._queue.first
            times = [] if delivery.hand is None else [delivery.hand.batch.added]
            times += [batch.added for batch in list(delivery.line)[:1]] + ([] if first is None else [first.added])
            oldest = self._clock.mono() - min(times) if times else 0.0
            spooled, spooled_bytes = delivery.spooled()
            lost = 0 if self._spool is None else self._spool.rejected_lost
            return Stats(self._queued(), self._flying(), delivery.accepted, delivery.rejected, self._dropped,
                         self._replaced, delivery.retries, oldest, spooled, spooled_bytes, delivery.damaged, lost,
                         delivery.state, delivery.code)

    def __enter__(self) -> Batcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, item: Any) -> Entry:
        if not is_object(item):
            raise invalid(f"an item must be an object, not of the type {type(item).__name__}")
        data = encode(item)
        key = None if self._item_key is None else key_of(item, self._item_key)
        if len(data) > ITEM_BYTES_MAX:
            raise HeadgateError("TOO_LARGE", f"the item {key or ''} has {len(data)} bytes; the limit is {ITEM_BYTES_MAX}")
        kept = None if self._callbacks.accepted is None and self._callbacks.rejected is None else item
        return Entry(kept, data, key if self._latest_only else None, 0, self._clock.mono())

    def _queued(self) -> int:
        """Items in memory that are not in hand."""
        hand = self._delivery.hand
        return len(self._queue) + sum(batch.count for batch in self._unwritten if hand is None or batch is not hand.batch)

    def _flying(self) -> int:
        return 0 if self._delivery.hand is None else self._delivery.hand.left

    def _oldest_place(self) -> float:
        if self._delivery.hand is not None:
            return self._delivery.hand.batch.first
        if self._delivery.line:
            return self._delivery.line[0].first
        first = self._queue.first
        return _NEVER if first is None else first.place

    def _landed(self, batch: Batch) -> None:
        """A batch is settled: without a spool, what gathered meanwhile goes at once. The lock is held."""
        if self._spool is None:
            self._eager_to = self._places - 1
        self._forget_unwritten(batch)

    def _forget_unwritten(self, batch: Batch) -> None:
        if batch in self._unwritten:
            self._unwritten.remove(batch)
            self._unwritten_bytes -= batch.size

    def _try_now(self) -> None:
        """The client has another key."""
        with self._lock:
            self._delivery.try_now()
            self._lock.notify_all()

    def _start(self) -> None:
        jobs = {"batcher": self._run} if self._spool is None else {"batcher": self._run, "spool": self._run_spool}
        for name, job in jobs.items():
            thread = self._threads.get(name)
            if thread is None or not thread.is_alive():
                self._threads[name] = threading.Thread(target=job, name="headgate-" + name, daemon=True)
                self._threads[name].start()

    def _run(self) -> None:
        self._work(self._send_due, self._send_turn)

    def _run_spool(self) -> None:
        self._work(self._write_due, self._write_turn)

    def _work(self, due: Callable[[], float], turn: Callable[[], object]) -> None:
        """Takes turns when they are due, until it is stopped and none is left."""
        while True:
            with self._lock:
                while True:
                    at = due()
                    if at == _NEVER and self._delivery.stopped:
                        return
                    left = at - self._clock.mono()
                    if left <= 0:
                        break
                    self._lock.wait(None if at == _NEVER else left)
            try:
                turn()
            except Exception:
                _LOG.exception("the batcher failed, and continues")
                time.sleep(1.0)

    def _send_due(self) -> float:
        """When a batch is to be sent. The lock is held."""
        delivery = self._delivery
        if self._spool is None and delivery.hand is None and not delivery.line and not delivery.stopped:
            return max(self._cut_due(), delivery.resume)
        return delivery.due()

    def _send_turn(self) -> None:
        if self._spool is None:
            with self._lock:
                if self._delivery.hand is None and not self._delivery.line and self._queue.first is not None:
                    self._delivery.line.append(self._cut())
                    self._lock.notify_all()
        self._delivery.turn()

    def _write_due(self) -> float:
        """When a batch is to be cut or written, or the folder looked at. The lock is held."""
        if self._spool is None:
            return _NEVER
        if self._delivery.stopped:
            return _NEVER if self._queue.first is None else float("-inf")
        return min(self._cut_due(), self._write_at if self._unwritten else _NEVER, self._look_at)

    def _write_turn(self) -> None:
        now = self._clock.mono()
        with self._lock:
            spool = self._spool
            if spool is None:
                return
            cut = self._queue.first is not None and (self._cut_due() <= now or self._delivery.stopped)
            batch = self._cut() if cut else None
            if batch is not None:
                batch.writing = True
                self._unwritten.append(batch)
                self._unwritten_bytes += batch.size
                self._delivery.line.append(batch)
            elif self._unwritten and self._write_at <= now:
                batch = self._unwritten[0]
                batch.writing = True
        if batch is not None:
            self._write(spool, batch)
        elif now >= self._look_at:
            self._look(spool)

    def _write(self, spool: Spool, batch: Batch) -> None:
        """Puts a batch on disk. One that the disk does not take is sent from memory when its turn comes."""
        content, why = batch.content, None
        assert content is not None
        try:
            size = spool.write(batch.key, content.item_key, content.stream, content.body)
        except OSError as error:
            why = error
        with self._lock:
            batch.writing = False
            if why is None:
                self._forget_unwritten(batch)
                batch.size = size
                self._delivery.came(batch)
                if self._delivery.line and self._delivery.line[0] is not batch:
                    batch.content = None  # it is read again when its turn comes
            else:
                self._write_at = self._clock.mono() + _WRITE_AGAIN
            stopped, works = self._delivery.stopped, why is None and not self._unwritten
            if stopped and why is not None:
                self._forget_unwritten(batch)
            self._lock.notify_all()
        if works or why is not None:
            self._delivery.disk("write", why)
        if stopped and why is not None:
            self._delivery.give_up(content.items, _not_accepted())

    def _look(self, spool: Spool) -> None:
        """Whether the folder is still this program's."""
        self._look_at = self._clock.mono() + _LOOK_SECONDS
        if not spool.holds():
            _LOG.error("another program now uses the spool %s, so this batcher stops; give each program its own spool", spool.folder)
            self._begin_close()
            self._end_close(self._flush(0, None))

    def _cut_due(self) -> float:
        """When the next batch is to be cut. The lock is held."""
        first = self._queue.first
        if first is None:
            return _NEVER
        if first.place <= max(self._flush_to, self._eager_to) or self._fills():
            return float("-inf")
        behind = self._spool is not None and (self._delivery.hand is not None or bool(self._delivery.line))
        return first.added + (max(self._linger, _LINGER_BEHIND) if behind else self._linger)

    def _cut(self) -> Batch:
        entries = self._queue.take(self._max_items, self._bytes_max())
        parts = [entry.data for entry in entries]
        stream = None if self._spool is None else self._delivery.stream
        content = Content([entry.item for entry in entries], parts, body_of(parts), self._item_key, stream)
        key = uuids.uuid7(self._clock.wall())
        return Batch(key, entries[0].place, entries[0].added, len(parts), len(content.body), content)


def _not_accepted() -> HeadgateError:
    return HeadgateError("CLOSED", "the batcher was closed before Headgate accepted the item", retryable=True)


def _at_exit() -> None:
    deadline = time.monotonic() + _EXIT_SECONDS
    for batcher in list(_open):
        batcher.flush(0)
    for batcher in list(_open):
        batcher.close(max(deadline - time.monotonic(), 0.0))


def _after_fork() -> None:
    uuids.renew()
    for batcher in list(_open):
        spool, batcher._spool = batcher._spool, None
        if spool is not None:
            spool.forget()
            _LOG.warning("a forked process has no spool, so a crash loses its waiting items; create the batcher after the fork, with its own spool")
        batcher._begin()
        batcher._client._transport.renew()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
