"""The sender of a batcher: one request at a time, in order, each batch until Headgate has accepted or refused it.

What is done and when is in :meth:`Delivery.due` and :meth:`Delivery.turn`; a thread of the batcher calls them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Deque, List, Optional, Set, Tuple

from .errors import HeadgateError
from .queue import Batch, Content, cuts
from .spool import Mark, Spool, cost
from .transport import Cancel
from .verdict import Receipt, Verdict, pause
from .wire import Submission

if TYPE_CHECKING:
    from .client import Client

_LOG = logging.getLogger("headgate")
#: Headgate knows idempotency keys for 24 hours: what it may have taken must not come again after that.
UNKNOWN_MAX = 23 * 3600.0
#: Both clocks may come apart by this much before the time of a mark is corrected.
_JUMP = 60.0
_BODY_MIN = 4096
_PARTS_MAX = 200


@dataclass
class Callbacks:
    """What the program wants to be told."""

    accepted: Optional[Callable[[Receipt, List[Any]], object]]
    rejected: Optional[Callable[[List[Any], HeadgateError], object]]
    state: Optional[Callable[[str, Optional[str]], object]]

    def tell(self, callback: Optional[Callable[..., object]], *told: object) -> None:
        """Calls one; that it fails is its own business."""
        if callback is not None:
            try:
                callback(*told)
            except Exception:
                _LOG.exception("a callback of the batcher raised an error")


class Hand:
    """The batch that is being sent."""

    def __init__(self, batch: Batch, content: Content) -> None:
        self.batch, self.content = batch, content
        #: Since when Headgate may have taken what is to be sent, by the client's clock.
        self.tried: Optional[float] = None
        #: What is left of it, once it was cut.
        self.parts: Optional[List[Tuple[int, int]]] = None

    @property
    def part(self) -> Tuple[int, int]:
        """What is to be sent: first item and number of items."""
        return (0, self.batch.count) if self.parts is None else self.parts[0]

    @property
    def key(self) -> str:
        """Its idempotency key: the same whenever the same part is cut out of the same batch."""
        return self.batch.key if self.parts is None else "{}/{}/{}".format(self.batch.key, *self.part)

    @property
    def left(self) -> int:
        """Items."""
        return self.batch.count - self.part[0]

    def submission(self) -> Submission:
        """What is to be sent."""
        start, count = self.part
        body = self.content.slice(start, count)
        return Submission(self.content.item_key, self.key, self.content.stream, body, count)


class Delivery:
    """Batches in line, and the one in hand. ``lock`` is the batcher's."""

    def __init__(self, client: Client, lock: threading.Condition, spool: Optional[Spool], callbacks: Callbacks,
                 landed: Callable[[Batch], object]) -> None:
        self._client, self._lock, self._spool, self._callbacks = client, lock, spool, callbacks
        self._landed = landed
        self.cancel = Cancel()
        self.stopped = False
        self.line: Deque[Batch] = deque()
        self.hand: Optional[Hand] = None
        self.accepted = self.rejected = self.retries = self.damaged = 0
        #: Batches on disk, with the one in hand, and what they take of the room.
        self.files = self.file_bytes = 0
        self.state = "ok"
        self.code: Optional[str] = None
        #: No longer bodies go through a proxy on the way.
        self.bytes_max: Optional[int] = None
        #: The stream of the key, once Headgate has said it.
        self.stream: Optional[str] = None
        self._failures = 0
        #: No attempt before this, by the client's clock.
        self.resume = float("-inf")
        self._blocked: Set[str] = set()
        self._drift = 0.0
        #: What the disk fails at.
        self._disk: Set[str] = set()

    def due(self) -> float:
        """When the next turn is; infinite: when something changes. The lock is held."""
        if self.stopped or (self.hand is None and (not self.line or self.line[0].writing)):
            return float("inf")
        return self.resume

    def try_now(self) -> None:
        """The key has changed: no pause counts. The lock is held."""
        self._failures, self.resume = 0, float("-inf")

    def turn(self) -> None:
        """Makes the next attempt, or finds that there is none to be made."""
        try:
            hand = self.hand or self._take()
            if hand is None:
                return
            if hand.tried is not None and self._client._clock.mono() - hand.tried > UNKNOWN_MAX:
                message = "Headgate may have accepted it more than 23 hours ago, and may no longer detect the duplicate; check the item before you send it again"
                return self._lay_aside(hand, HeadgateError("EXPIRED", message), 0.0)
            self._attempt(hand)
        except OSError as error:
            self._failures += 1
            self.disk("send", error)
            self._rest(max(self._client.backoff(self._failures), 1.0))
        else:
            self.disk("send", None)

    def disk(self, use: str, why: Optional[OSError]) -> None:
        """Tells that the spool cannot be read or written, and when it can be again."""
        with self._lock:
            before = bool(self._disk)
            (self._disk.discard if why is None else self._disk.add)(use)
            after = bool(self._disk)
        if before == after:
            return
        if why is not None:
            _LOG.warning("cannot write a batch to the spool, or read one from it, retrying: %s", why)
        else:
            _LOG.warning("the spool works again")
        self._callbacks.tell(self._callbacks.state, "retrying" if after else "ok", "SPOOL")

    def _rest(self, seconds: float) -> None:
        with self._lock:
            self.resume = self._client._clock.mono() + seconds
            self._lock.notify_all()

    def _take(self) -> Optional[Hand]:
        """The next batch; none, if its file is gone or damaged."""
        with self._lock:
            if self.stopped or not self.line or self.line[0].writing:
                return None
            batch = self.line[0]
            content = batch.content
        if content is None:
            content = self._read(batch)
            if content is None:
                return None
        hand = Hand(batch, content)
        if self._spool is not None and batch.first < 0:
            mark = self._spool.marked(batch.key, batch.count)
            hand.parts = mark.parts
            if mark.tried is not None:
                clock = self._client._clock
                hand.tried = clock.mono() - max(clock.wall() - mark.tried, 0.0)
                self._drift = clock.wall() - clock.mono()
        with self._lock:
            if self.stopped:
                return None
            self.line.popleft()
            self.hand = hand
            self._lock.notify_all()
        return hand

    def _read(self, batch: Batch) -> Optional[Content]:
        assert self._spool is not None
        kept = self._spool.read(batch.key)
        if kept is None or isinstance(kept, str):
            if kept is not None:
                _LOG.warning("%s/%s.json is not a valid batch (%s); renamed to .damaged", self._spool.folder, batch.key, kept)
            with self._lock:
                if self.stopped:
                    return None
                self.line.popleft()
                self.gone(batch)
                self.damaged += kept is not None
                self._lock.notify_all()
            return None
        content = Content(kept.items, None, kept.body, kept.item_key, kept.stream)
        with self._lock:
            batch.count, batch.content = len(kept.items), content
        return content

    def _attempt(self, hand: Hand) -> None:
        clock, transport = self._client._clock, self._client._transport
        self._correct(hand)
        first, changes = hand.tried is None, transport.changes

        def leaving() -> None:
            if hand.tried is None:
                hand.tried = clock.mono()
                self._mark(hand)

        verdict = self._client.attempt(hand.submission(), leaving, self.cancel)
        if self.stopped:
            return
        if verdict.unknown:
            leaving()
        elif first and hand.tried is not None:
            hand.tried = None
            if verdict.kind in ("blocked", "retrying"):
                self._mark(hand)
        if verdict.kind == "blocked" and transport.changes != changes:
            return  # that was about the old key
        self._judged(hand, verdict)

    def _judged(self, hand: Hand, verdict: Verdict) -> None:
        if verdict.receipt is not None:
            return self._accept(hand, verdict.receipt)
        error = verdict.error
        assert error is not None
        if verdict.kind in ("blocked", "retrying"):
            return self._failed(hand, verdict, error)
        self._works()
        if verdict.kind == "mismatch" or hand.part[1] == 1:
            return self._lay_aside(hand, error, pause(verdict, 0.0))
        self._cut(hand, verdict.items)
        self._rest(pause(verdict, 0.0))

    def _failed(self, hand: Hand, verdict: Verdict, error: HeadgateError) -> None:
        with self._lock:
            self._failures += 1
            self.retries += 1
        self._fails("blocked" if verdict.kind == "blocked" else "retrying", error)
        if verdict.shrink and hand.tried is None and hand.part[1] > 1:
            length = len(hand.submission().body) // 2
            self.bytes_max = max(min(self.bytes_max or length, length), _BODY_MIN)
            self._cut(hand, ())
        self._rest(pause(verdict, self._client.backoff(self._failures)))

    def _cut(self, hand: Hand, named: Tuple[int, ...]) -> None:
        """The part in hand is sent in parts; which they are is on disk before the first of them is sent."""
        start, count = hand.part
        parts = cuts(start, count, named) + ([] if hand.parts is None else hand.parts[1:])
        if len(parts) > _PARTS_MAX:
            begin = parts[_PARTS_MAX - 1][0]  # none of these was sent yet: they may be one
            parts[_PARTS_MAX - 1 :] = [(begin, hand.batch.count - begin)]
        with self._lock:
            hand.parts, hand.tried = parts, None
        self._mark(hand)

    def _accept(self, hand: Hand, receipt: Receipt) -> None:
        start, count = hand.part
        with self._lock:
            self.accepted += count
            self.stream = receipt.stream
        self._works()
        self._callbacks.tell(self._callbacks.accepted, receipt, hand.content.items[start : start + count])
        self._done(hand, 0.0)

    def _lay_aside(self, hand: Hand, error: HeadgateError, seconds: float) -> None:
        """Hands a part over that will not be sent any more, and keeps it beside the spool's queue."""
        start, count = hand.part
        if self._spool is not None:
            told = {"code": error.code, "message": error.message, "request_id": error.request_id}
            line = {"v": 1, "idempotency_key": hand.key, "item_key": hand.content.item_key, "error": told}
            self._spool.reject(hand.batch.key, line, hand.content.slice(start, count))
        self.give_up(hand.content.items[start : start + count], error)
        self._done(hand, seconds)

    def give_up(self, items: List[Any], error: HeadgateError) -> None:
        """Tells the program of items that are not sent."""
        with self._lock:
            self.rejected += len(items)
        _LOG.warning("%d items were not accepted: %s", len(items), error)
        self._callbacks.tell(self._callbacks.rejected, items, error)

    def _done(self, hand: Hand, seconds: float) -> None:
        """The part in hand is settled."""
        if hand.parts is not None and len(hand.parts) > 1:
            with self._lock:
                hand.parts, hand.tried = hand.parts[1:], None
            self._mark(hand)
        else:
            with self._lock:
                while hand.batch.writing:
                    self._lock.wait()
                written = hand.batch.written
            if written and self._spool is not None:
                self._spool.delete(hand.batch.key)
            with self._lock:
                if written:
                    self.gone(hand.batch)
                if self.stopped:
                    return
                self.hand = None
                self._landed(hand.batch)
        self._rest(seconds)

    def _works(self) -> None:
        self._failures = 0
        self._blocked.clear()
        if self.state != "ok":
            with self._lock:
                self.state, self.code = "ok", None
            _LOG.warning("batches are accepted again")
            self._callbacks.tell(self._callbacks.state, "ok", None)

    def _fails(self, state: str, error: HeadgateError) -> None:
        """Says it when the state changes, or the code of what blocks."""
        before = (self.state, self.code)
        with self._lock:
            self.state, self.code = state, error.code
        if before[0] == "ok":
            _LOG.warning("a batch was not accepted, retrying: %s", error)
        if state == "blocked" and error.code not in self._blocked:
            self._blocked.add(error.code)
            _LOG.warning("Headgate rejects the requests of this client, which waits for another key or configuration: %s", error)
        if before[0] != state or (state == "blocked" and before[1] != error.code):
            self._callbacks.tell(self._callbacks.state, state, error.code)

    def _mark(self, hand: Hand) -> None:
        if self._spool is None:
            return
        clock = self._client._clock
        tried = None if hand.tried is None else clock.wall() - (clock.mono() - hand.tried)
        self._drift = clock.wall() - clock.mono()
        try:
            self._spool.mark(Mark(hand.batch.key, tried, hand.parts))
        except (OSError, ValueError) as error:
            _LOG.warning("cannot write the state of the current batch to %s/.state: %s", self._spool.folder, error)

    def _correct(self, hand: Hand) -> None:
        """The wall clock was set: a mark says by it since when the outcome is unknown."""
        clock = self._client._clock
        if hand.tried is not None and abs(clock.wall() - clock.mono() - self._drift) > _JUMP:
            self._mark(hand)

    def stop(self) -> List[List[Any]]:
        """Ends it; what is not on disk is handed back, in order. The lock is held."""
        self.stopped = True
        left = []
        if self.hand is not None and not (self.hand.batch.written or self.hand.batch.writing):
            left.append(self.hand.content.items[self.hand.part[0] :])
        for batch in self.line:
            if batch.content is not None and not (batch.written or batch.writing):
                left.append(batch.content.items)
        self.hand, self.line = None, deque()
        self.cancel.cancel()
        return left

    def came(self, batch: Batch) -> None:
        """A batch has its file. The lock is held."""
        batch.written = True
        self.files += 1
        self.file_bytes += cost(batch.size)

    def gone(self, batch: Batch) -> None:
        """Its file is there no more. The lock is held."""
        self.files -= 1
        self.file_bytes -= cost(batch.size)

    def spooled(self) -> Tuple[int, int]:
        """Batches on disk that are not in hand, and their bytes. The lock is held."""
        if self.hand is None or not self.hand.batch.written:
            return self.files, self.file_bytes
        return self.files - 1, self.file_bytes - cost(self.hand.batch.size)
